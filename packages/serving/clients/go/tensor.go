package serving

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Element is a type of Go that a tensor may hold. Bytes are of FromBytes.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Tensor is a named array, row by row. Data holds its elements as the binary tensor
// extension does: little-endian, and each of BYTES after its length of four bytes.
type Tensor struct {
	Name     string
	Datatype string
	Shape    []int64
	Data     []byte
}

// sizes has the bytes of an element by datatype; BYTES have no size of their own.
var sizes = map[string]int64{
	"BOOL": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8,
	"UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8,
	"FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8,
}

func datatypeOf[T Element]() string {
	var zero T
	switch any(zero).(type) {
	case bool:
		return "BOOL"
	case int8:
		return "INT8"
	case int16:
		return "INT16"
	case int32:
		return "INT32"
	case int64:
		return "INT64"
	case uint8:
		return "UINT8"
	case uint16:
		return "UINT16"
	case uint32:
		return "UINT32"
	case uint64:
		return "UINT64"
	case float32:
		return "FP32"
	default:
		return "FP64"
	}
}

// New is the tensor of values, whose number must be the product of shape.
func New[T Element](name string, shape []int64, values []T) (Tensor, error) {
	tensor := Tensor{Name: name, Datatype: datatypeOf[T](), Shape: shape}
	if err := checkCount(tensor, int64(len(values))); err != nil {
		return Tensor{}, err
	}
	var data bytes.Buffer
	data.Grow(len(values) * int(sizes[tensor.Datatype]))
	// Writing to memory fails for types of no fixed size alone, and these have one.
	if err := binary.Write(&data, binary.LittleEndian, values); err != nil {
		return Tensor{}, err
	}
	tensor.Data = data.Bytes()
	return tensor, nil
}

// Values has the elements of tensor, whose datatype must be that of T.
func Values[T Element](tensor Tensor) ([]T, error) {
	if want := datatypeOf[T](); tensor.Datatype != want {
		return nil, fmt.Errorf("[tensor %s] expected %s, got %s", tensor.Name, want, tensor.Datatype)
	}
	count, err := tensor.count()
	if err != nil {
		return nil, err
	}
	if want := count * sizes[tensor.Datatype]; int64(len(tensor.Data)) != want {
		return nil, fmt.Errorf("[tensor %s] expected %d bytes, got %d", tensor.Name, want, len(tensor.Data))
	}
	values := make([]T, count)
	err = binary.Read(bytes.NewReader(tensor.Data), binary.LittleEndian, values)
	return values, err
}

// FromBytes is the tensor of BYTES, which strings are too.
func FromBytes(name string, shape []int64, values [][]byte) (Tensor, error) {
	tensor := Tensor{Name: name, Datatype: "BYTES", Shape: shape}
	if err := checkCount(tensor, int64(len(values))); err != nil {
		return Tensor{}, err
	}
	for _, value := range values {
		if int64(len(value)) > math.MaxUint32 {
			return Tensor{}, fmt.Errorf("[tensor %s] expected elements below 4 GiB, got %d bytes", name, len(value))
		}
		var size [4]byte
		binary.LittleEndian.PutUint32(size[:], uint32(len(value)))
		tensor.Data = append(append(tensor.Data, size[:]...), value...)
	}
	return tensor, nil
}

// ToBytes has the elements of a tensor of BYTES.
func ToBytes(tensor Tensor) ([][]byte, error) {
	if tensor.Datatype != "BYTES" {
		return nil, fmt.Errorf("[tensor %s] expected BYTES, got %s", tensor.Name, tensor.Datatype)
	}
	values := [][]byte{}
	for left := tensor.Data; len(left) > 0; {
		if len(left) < 4 {
			return nil, fmt.Errorf("[tensor %s] ends inside a length", tensor.Name)
		}
		size := int64(binary.LittleEndian.Uint32(left))
		left = left[4:]
		if size > int64(len(left)) {
			return nil, fmt.Errorf("[tensor %s] ends inside an element", tensor.Name)
		}
		values = append(values, left[:size])
		left = left[size:]
	}
	return values, checkCount(tensor, int64(len(values)))
}

func (t Tensor) count() (int64, error) {
	count := int64(1)
	for _, size := range t.Shape {
		if size < 0 || (size > 0 && count > math.MaxInt32/size) {
			return 0, fmt.Errorf("[tensor %s] expected a shape of sizes, got %v", t.Name, t.Shape)
		}
		count *= size
	}
	return count, nil
}

func checkCount(t Tensor, got int64) error {
	want, err := t.count()
	if err == nil && want != got {
		err = fmt.Errorf("[tensor %s] expected %d elements for shape %v, got %d", t.Name, want, t.Shape, got)
	}
	return err
}
