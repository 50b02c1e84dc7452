# Models of Proa in R. Arrays of R are column-major and those of models row-major: axes are
# reversed on the way in and out, so that x[i, j] is the same element on both sides.

# A predictor of a model file, or of a raw vector with its bytes.
#
# threads: 1 for the calling thread, n for a pool of n, 0 for the pool of the process.
# key: of an encrypted model, a raw vector of 32 bytes.
proa_load <- function(model, threads = 1L, key = NULL) {
  path <- if (is.raw(model)) NULL else path.expand(model)
  bytes <- if (is.raw(model)) model else NULL
  .Call(C_proa_load, path, bytes, as.integer(threads), key)
}

# A predictor with the same weights and memory of its own.
proa_clone <- function(predictor) .Call(C_proa_clone, predictor)

# Sizes of the inputs as the model states them, a list by name; -1 may vary.
proa_inputs <- function(predictor) .Call(C_proa_specs, predictor, TRUE)

# The same of the outputs.
proa_outputs <- function(predictor) .Call(C_proa_specs, predictor, FALSE)

# Runs the model on a list of arrays by name; returns one of arrays.
proa_run <- function(predictor, inputs) {
  names <- names(proa_inputs(predictor))
  missing <- setdiff(names, names(inputs))
  if (length(missing) > 0) {
    stop("expected arrays for the inputs ", paste(missing, collapse = ", "), ", got none")
  }
  given <- lapply(inputs[names], function(x) {
    sizes <- if (is.null(dim(x))) length(x) else dim(x)
    rows <- if (length(sizes) > 1) aperm(x, rev(seq_along(sizes))) else x
    list(if (is.logical(x)) as.integer(rows) else as.double(rows), as.double(sizes))
  })
  lapply(.Call(C_proa_run, predictor, given), function(y) {
    values <- y[[1]]
    sizes <- y[[2]]
    if (length(sizes) > 1) aperm(array(values, rev(sizes)), rev(seq_along(sizes))) else values
  })
}

# Version of the library.
proa_version <- function() .Call(C_proa_version)
