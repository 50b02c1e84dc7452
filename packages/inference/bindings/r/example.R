# Rscript example.R MODEL: runs a model on ones and prints its outputs. Unknown sizes are 1.
library(proainference)

predictor <- proa_load(commandArgs(trailingOnly = TRUE)[1])
ones <- lapply(proa_inputs(predictor), function(sizes) array(1, pmax(sizes, 1)))
outputs <- proa_run(predictor, ones)
for (name in names(outputs)) {
  cat(name, ": ", paste(format(outputs[[name]], digits = 7), collapse = " "), "\n", sep = "")
}
