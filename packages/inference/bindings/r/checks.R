# Checks the binding on a model of x (?, 6) to y (?, 3) and hidden (?, 8), plain and encrypted.
library(proainference)

arguments <- commandArgs(trailingOnly = TRUE)
predictor <- proa_load(arguments[1])
stopifnot(identical(proa_inputs(predictor), list(x = c(-1, 6))))
stopifnot(identical(names(proa_outputs(predictor)), c("y", "hidden")), nzchar(proa_version()))

x <- matrix(seq(-1, 1, length.out = 30), 5, 6)
whole <- proa_run(predictor, list(x = x))
stopifnot(identical(dim(whole$y), c(5L, 3L)), identical(dim(whole$hidden), c(5L, 8L)))
twin <- proa_clone(predictor)
for (i in 1:5) { # each row alone: axes are where they were
  row <- proa_run(twin, list(x = x[i, , drop = FALSE]))
  stopifnot(max(abs(row$y - whole$y[i, ])) < 1e-6, max(abs(row$hidden - whole$hidden[i, ])) < 1e-6)
}

failure <- function(body) tryCatch({ body; "none" }, error = conditionMessage)
stopifnot(grepl("'x' must have shape", failure(proa_run(predictor, list(x = matrix(0, 2, 5))))))
stopifnot(grepl("inputs x, got none", failure(proa_run(predictor, list(z = x)))))
stopifnot(grepl("model", failure(proa_load(as.raw(1:50)))))
key <- as.raw(rep(7, 32))
stopifnot(grepl("another key", failure(proa_load(arguments[2], key = as.raw(rep(8, 32))))))
stopifnot(grepl("expected a key", failure(proa_load(arguments[2], key = as.raw(1:3)))))
secret <- proa_run(proa_load(arguments[2], key = key), list(x = x))
stopifnot(identical(secret, whole))
bytes <- readBin(arguments[1], "raw", file.size(arguments[1]))
stopifnot(identical(proa_run(proa_load(bytes), list(x = x)), whole))
cat("all checks passed\n")
