// Runs a model on ones and prints its outputs: example MODEL. Unknown sizes are 1.
package main

import (
	"fmt"
	"os"

	"proa/inference"
)

func main() {
	predictor, err := inference.NewPredictor(inference.Config{Model: os.Args[1], Threads: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer predictor.Close()
	inputs := map[string]inference.Tensor{}
	for _, spec := range predictor.Inputs() {
		count := int64(1)
		for i, size := range spec.Shape {
			if size < 0 {
				spec.Shape[i] = 1
			}
			count *= spec.Shape[i]
		}
		data := make([]float32, count)
		for i := range data {
			data[i] = 1
		}
		inputs[spec.Name] = inference.Tensor{Shape: spec.Shape, Data: data}
	}
	outputs, err := predictor.Run(inputs)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, spec := range predictor.Outputs() {
		fmt.Print(spec.Name, ":")
		for _, value := range outputs[spec.Name].Data.([]float32) {
			fmt.Print(" ", value)
		}
		fmt.Println()
	}
}
