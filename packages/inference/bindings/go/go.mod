module proa/inference

go 1.18
