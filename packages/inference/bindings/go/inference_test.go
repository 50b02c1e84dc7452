package inference

import (
	"errors"
	"os"
	"sync"
	"testing"
)

// The model has a float32 input x (?, 6) and outputs y (?, 3) and hidden (?, 8).
func load(t *testing.T) *Predictor {
	t.Helper()
	p, err := NewPredictor(Config{Model: os.Getenv("PROA_TEST_MODEL"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ones(rows int64) map[string]Tensor {
	data := make([]float32, rows*6)
	for i := range data {
		data[i] = 1
	}
	return map[string]Tensor{"x": {Shape: []int64{rows, 6}, Data: data}}
}

func TestSpecsAreThoseOfTheModel(t *testing.T) {
	p := load(t)
	defer p.Close()
	in, out := p.Inputs(), p.Outputs()
	if len(in) != 1 || in[0].Name != "x" || in[0].Shape[0] != -1 || in[0].Shape[1] != 6 {
		t.Fatal(in)
	}
	if len(out) != 2 || out[0].Name != "y" || out[1].Name != "hidden" || LibraryVersion() == "" {
		t.Fatal(out)
	}
}

func TestRowsOfABatchAreAlikeInEveryGoroutine(t *testing.T) {
	p := load(t)
	first, err := p.Run(ones(1))
	if err != nil {
		t.Fatal(err)
	}
	want := first["y"].Data.([]float32)
	var group sync.WaitGroup
	for g := 0; g < 4; g++ {
		clone, err := p.Clone()
		if err != nil {
			t.Fatal(err)
		}
		group.Add(1)
		go func() {
			defer group.Done()
			for rows := int64(1); rows < 30; rows++ {
				got, err := clone.Run(ones(rows))
				if err != nil {
					t.Error(err)
					return
				}
				y := got["y"]
				if y.Shape[0] != rows || y.Data.([]float32)[3*rows-1] != want[2] {
					t.Error(rows, y)
				}
			}
			clone.Close()
		}()
	}
	group.Wait()
}

func TestErrorsHaveAStatus(t *testing.T) {
	var failure *Error
	if _, err := NewPredictor(Config{Bytes: []byte("no model at all")}); !errors.As(err, &failure) ||
		failure.Status != BadModel {
		t.Fatal(err)
	}
	p := load(t)
	for _, wrong := range []map[string]Tensor{
		{"x": {Shape: []int64{1, 5}, Data: make([]float32, 5)}},
		{"x": {Shape: []int64{1, 6}, Data: make([]float32, 5)}},
		{"x": {Shape: []int64{1, 6}, Data: make([]float64, 6)}},
		{"x": {Shape: []int64{1, 6}, Data: "text"}},
		{},
	} {
		q, _ := p.Clone()
		if _, err := q.Run(wrong); !errors.As(err, &failure) || failure.Status != InvalidArgument {
			t.Fatal(err)
		}
	}
	if _, err := p.Run(map[string]Tensor{"z": {}}); err == nil {
		t.Fatal("no error")
	}
	p.Close()
	if _, err := p.Run(ones(1)); err == nil {
		t.Fatal("a closed predictor ran")
	}
}

func TestEncryptedModelsNeedTheirKey(t *testing.T) {
	secret := os.Getenv("PROA_TEST_SECRET")
	if secret == "" {
		t.Skip("no encrypted model")
	}
	key := make([]byte, 32)
	if _, err := NewPredictor(Config{Model: secret, Key: key}); err == nil {
		t.Fatal("a wrong key was taken")
	}
	for i := range key {
		key[i] = 7
	}
	p, err := NewPredictor(Config{Model: secret, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(ones(2)); err != nil {
		t.Fatal(err)
	}
}
