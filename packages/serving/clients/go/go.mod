module proa-serving

go 1.18
