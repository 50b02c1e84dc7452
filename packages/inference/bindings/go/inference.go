// Package inference runs models of Proa by the C library libproa_inference.
//
// The compiler must find the library and its header:
//
//	home=$(dirname "$(proa-infer where include)")
//	export CGO_CFLAGS="-I$home/include" CGO_LDFLAGS="-L$home/lib -Wl,-rpath,$home/lib"
package inference

/*
#cgo LDFLAGS: -lproa_inference
#include <proa_inference.h>
#include <stdlib.h>

static int32_t proa_go_key(void* context, uint8_t key[PROA_KEY_BYTES]) {
  for (int i = 0; i < PROA_KEY_BYTES; ++i) key[i] = ((const uint8_t*)context)[i];
  return 0;
}
static proa_status proa_go_set_key(proa_config* config, void* key) {
  return proa_config_set_key(config, proa_go_key, key);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Status says what kind of call failed; its values are those of proa_status.
type Status int

// The statuses that callers act on.
const (
	InvalidArgument   Status = C.PROA_INVALID_ARGUMENT
	OutOfRange        Status = C.PROA_OUT_OF_RANGE
	Unimplemented     Status = C.PROA_UNIMPLEMENTED
	ResourceExhausted Status = C.PROA_RESOURCE_EXHAUSTED
	BadModel          Status = C.PROA_BAD_MODEL
	Version           Status = C.PROA_VERSION
	NotFound          Status = C.PROA_NOT_FOUND
	Failed            Status = C.PROA_FAILED
)

// Error is a failed call.
type Error struct {
	Status  Status
	Message string
}

func (e *Error) Error() string { return e.Message }

// call runs a function of the library. Its message is kept for each thread, to which the goroutine
// is bound meanwhile.
func call(body func() C.proa_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := body(); status != C.PROA_OK {
		return &Error{Status(status), C.GoString(C.proa_last_error())}
	}
	return nil
}

// Config says what to load and how it runs.
type Config struct {
	Model   string // path of a file, or
	Bytes   []byte // the bytes of one
	Threads int    // 1: the calling thread; n: a pool of n; 0: the pool of the process
	Key     []byte // 32 bytes, if the model is encrypted
}

// Tensor is a row-major array. Data is a slice of bool, uint8, int8, int16, int32, int64, float32 or
// float64.
type Tensor struct {
	Shape []int64
	Data  interface{}
}

// Spec describes an input or output; a size of -1 may vary.
type Spec struct {
	Name  string
	Shape []int64
}

// Predictor is a loaded model. Calls of one are made one after another; Clone for more.
type Predictor struct {
	mutex  sync.Mutex
	handle *C.proa_predictor
}

// NewPredictor loads a model.
func NewPredictor(config Config) (*Predictor, error) {
	c := C.proa_config_create()
	defer C.proa_config_free(c)
	if err := call(func() C.proa_status { return fill(c, config) }); err != nil {
		return nil, err
	}
	if config.Key != nil {
		if len(config.Key) != C.PROA_KEY_BYTES {
			return nil, &Error{InvalidArgument,
				fmt.Sprintf("[NewPredictor] Key must be 32 bytes, got %d", len(config.Key))}
		}
		key := C.CBytes(config.Key)
		defer C.free(key)
		C.proa_go_set_key(c, key)
	}
	var created *C.proa_predictor
	if err := call(func() C.proa_status { return C.proa_predictor_create(c, &created) }); err != nil {
		return nil, err
	}
	return own(created), nil
}

func fill(c *C.proa_config, config Config) C.proa_status {
	if status := C.proa_config_set_threads(c, C.int32_t(config.Threads)); status != C.PROA_OK {
		return status
	}
	if len(config.Bytes) > 0 {
		return C.proa_config_set_model_bytes(
			c, unsafe.Pointer(&config.Bytes[0]), C.size_t(len(config.Bytes)))
	}
	path := C.CString(config.Model)
	defer C.free(unsafe.Pointer(path))
	return C.proa_config_set_model(c, path)
}

func own(handle *C.proa_predictor) *Predictor {
	p := &Predictor{handle: handle}
	runtime.SetFinalizer(p, (*Predictor).Close)
	return p
}

// Close frees the predictor, which must not be used thereafter.
func (p *Predictor) Close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	C.proa_predictor_free(p.handle)
	p.handle = nil
	runtime.SetFinalizer(p, nil)
}

// Clone makes a predictor with the same weights and memory of its own.
func (p *Predictor) Clone() (*Predictor, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var created *C.proa_predictor
	err := call(func() C.proa_status { return C.proa_predictor_clone(p.handle, &created) })
	if err != nil {
		return nil, err
	}
	return own(created), nil
}

// Inputs describes the inputs in order.
func (p *Predictor) Inputs() []Spec {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	specs := make([]Spec, int(C.proa_input_count(p.handle)))
	for i := range specs {
		var array C.proa_array
		C.proa_input_spec(p.handle, C.int32_t(i), &array)
		specs[i] = Spec{C.GoString(C.proa_input_name(p.handle, C.int32_t(i))), shapeOf(&array)}
	}
	return specs
}

// Outputs describes the outputs in order.
func (p *Predictor) Outputs() []Spec {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	specs := make([]Spec, int(C.proa_output_count(p.handle)))
	for i := range specs {
		var array C.proa_array
		C.proa_output_spec(p.handle, C.int32_t(i), &array)
		specs[i] = Spec{C.GoString(C.proa_output_name(p.handle, C.int32_t(i))), shapeOf(&array)}
	}
	return specs
}

// Run runs the model on arrays by the names of its inputs; returns new arrays by those of its
// outputs.
func (p *Predictor) Run(inputs map[string]Tensor) (map[string]Tensor, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.handle == nil {
		return nil, &Error{InvalidArgument, "[Run] expected a predictor that is not closed"}
	}
	for name, tensor := range inputs {
		if err := p.set(name, tensor); err != nil {
			return nil, err
		}
	}
	err := call(func() C.proa_status { return C.proa_predictor_run_tensors(p.handle) })
	if err != nil {
		return nil, err
	}
	outputs := map[string]Tensor{}
	for i := C.int32_t(0); i < C.proa_output_count(p.handle); i++ {
		name := C.proa_output_name(p.handle, i)
		var handle *C.proa_tensor
		var array C.proa_array
		err := call(func() C.proa_status {
			if status := C.proa_predictor_output(p.handle, name, &handle); status != C.PROA_OK {
				return status
			}
			return C.proa_tensor_array(handle, &array)
		})
		if err != nil {
			return nil, err
		}
		tensor, err := copied(&array)
		if err != nil {
			return nil, err
		}
		outputs[C.GoString(name)] = tensor
	}
	return outputs, nil
}

func (p *Predictor) set(name string, tensor Tensor) error {
	dtype, count, data := described(tensor.Data)
	size := 1
	for _, d := range tensor.Shape {
		size *= int(d)
	}
	if data == nil && count != 0 || size != count {
		return &Error{InvalidArgument, fmt.Sprintf(
			"[Run] input %q must have a slice of numbers as long as its shape %v, got %T of %d",
			name, tensor.Shape, tensor.Data, count)}
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var handle *C.proa_tensor
	err := call(func() C.proa_status { return C.proa_predictor_input(p.handle, text, &handle) })
	if err != nil {
		return err
	}
	if C.proa_tensor_dtype(handle) != dtype {
		return &Error{InvalidArgument,
			fmt.Sprintf("[Run] input %q must have another type, got %T", name, tensor.Data)}
	}
	return call(func() C.proa_status {
		var shape *C.int64_t
		if len(tensor.Shape) > 0 {
			shape = (*C.int64_t)(unsafe.Pointer(&tensor.Shape[0]))
		}
		status := C.proa_tensor_reshape(handle, C.int32_t(len(tensor.Shape)), shape)
		if status != C.PROA_OK || count == 0 {
			return status
		}
		return C.proa_tensor_copy_from(handle, data)
	})
}

// Version of the library.
func LibraryVersion() string { return C.GoString(C.proa_version()) }

func shapeOf(array *C.proa_array) []int64 {
	shape := make([]int64, int(array.rank))
	for i := range shape {
		shape[i] = int64(array.shape[i])
	}
	return shape
}

func described(data interface{}) (dtype C.proa_dtype, count int, first unsafe.Pointer) {
	switch v := data.(type) {
	case []bool:
		return C.PROA_BOOL, len(v), firstOf(v)
	case []uint8:
		return C.PROA_UINT8, len(v), firstOf(v)
	case []int8:
		return C.PROA_INT8, len(v), firstOf(v)
	case []int16:
		return C.PROA_INT16, len(v), firstOf(v)
	case []int32:
		return C.PROA_INT32, len(v), firstOf(v)
	case []int64:
		return C.PROA_INT64, len(v), firstOf(v)
	case []float32:
		return C.PROA_FLOAT32, len(v), firstOf(v)
	case []float64:
		return C.PROA_FLOAT64, len(v), firstOf(v)
	}
	return C.PROA_COMPLEX128, -1, nil
}

func firstOf[T any](values []T) unsafe.Pointer {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Pointer(&values[0])
}

func copyOf[T any](array *C.proa_array, count int) []T {
	values := make([]T, count)
	copy(values, unsafe.Slice((*T)(array.data), count))
	return values
}

func copied(array *C.proa_array) (Tensor, error) {
	shape, count := shapeOf(array), 1
	for _, d := range shape {
		count *= int(d)
	}
	switch array.dtype {
	case C.PROA_BOOL:
		return Tensor{shape, copyOf[bool](array, count)}, nil
	case C.PROA_UINT8:
		return Tensor{shape, copyOf[uint8](array, count)}, nil
	case C.PROA_INT8:
		return Tensor{shape, copyOf[int8](array, count)}, nil
	case C.PROA_INT16:
		return Tensor{shape, copyOf[int16](array, count)}, nil
	case C.PROA_INT32:
		return Tensor{shape, copyOf[int32](array, count)}, nil
	case C.PROA_INT64:
		return Tensor{shape, copyOf[int64](array, count)}, nil
	case C.PROA_FLOAT32:
		return Tensor{shape, copyOf[float32](array, count)}, nil
	case C.PROA_FLOAT64:
		return Tensor{shape, copyOf[float64](array, count)}, nil
	}
	return Tensor{}, &Error{Unimplemented, "[Run] an output has a type that Go has not"}
}
