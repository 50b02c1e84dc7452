// Arithmetic and comparison slots: straight to the dispatcher.
#include "proa/gen/op_ids.h"
#include "proa/gen/ops.h"
#include "python.h"

namespace proa::bind {

namespace {

PyObject* run(OpId id, TensorImpl* a, TensorImpl* b) {
  TensorImpl* in[] = {a, b};
  Tensor out;
  dispatch(op_entries()[static_cast<int>(id)], in, b == nullptr ? 1 : 2, nullptr, &out);
  return wrap(std::move(out));
}

template <OpId id>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (Py_TYPE(a) == tensor_type && Py_TYPE(b) == tensor_type) {
      return run(id, impl_of(a), impl_of(b));
    }
    const Tensor x = to_operand(a), y = to_operand(b);
    if (!x || !y) Py_RETURN_NOTIMPLEMENTED;
    return run(id, x.get(), y.get());
  });
}

template <OpId id>
PyObject* unary(PyObject* a) {
  return guarded([&] { return run(id, impl_of(a), nullptr); });
}

PyObject* positive(PyObject* a) {
  Py_INCREF(a);
  return a;
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  const bool two = (PyLong_CheckExact(b) && PyLong_AsLong(b) == 2) ||
                   (PyFloat_CheckExact(b) && PyFloat_AS_DOUBLE(b) == 2.0);
  if (PyErr_Occurred()) PyErr_Clear();
  if (two && is_tensor(a) &&
      impl_of(a)->view.dtype >= (PyLong_Check(b) ? DType::kU8 : DType::kF16)) {
    return unary<OpId::square>(a);
  }
  return binary<OpId::pow>(a, b);
}

// The op takes matrices; a vector gets an axis, which is removed again.
PyObject* matrix_product(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor x = to_operand(a), y = to_operand(b);
    if (!x || !y) Py_RETURN_NOTIMPLEMENTED;
    const int rx = x.rank(), ry = y.rank();
    if (rx == 0 || ry == 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[matmul] expected arrays with at least 1 axis, got a number");
    }
    if (rx == 1) x = ops::unsqueeze(x, Ints{1, {0}});
    if (ry == 1) y = ops::unsqueeze(y, Ints{1, {-1}});
    Tensor z = ops::matmul(x, y);
    if (ry == 1) z = ops::squeeze(z, Ints{1, {-1}});
    if (rx == 1) z = ops::squeeze(z, Ints{1, {ry == 1 ? -1 : -2}});
    return wrap(std::move(z));
  });
}

Tensor one_element(PyObject* self, const char* what) {
  Tensor x = dense(Tensor::share(impl_of(self)));
  require_value(x.get(), what);
  if (x.numel() != 1) {
    throw Error(ErrorKind::kInvalidArgument, std::string("[") + what +
                                                 "] the tensor must have one element, got shape " +
                                                 shape_text(x.view()));
  }
  return x;
}

int truth(PyObject* self) {
  return guarded_int([&] {
    const Tensor x = one_element(self, "bool");
    if (x.dtype() == DType::kC64) return x.data<float>()[0] != 0 || x.data<float>()[1] != 0;
    if (x.dtype() == DType::kC128) return x.data<double>()[0] != 0 || x.data<double>()[1] != 0;
    return to_double(x) != 0.0;
  });
}

// A complex number is none of these, even where its imaginary part is 0, as in Python.
void require_real(PyObject* self, const char* what) {
  if (!is_complex(impl_of(self)->view.dtype)) return;
  raise_type(std::string("[") + what + "] expected a tensor of real numbers, got " +
             name_of(impl_of(self)->view.dtype));
}

PyObject* float_slot(PyObject* self) {
  return guarded([&] {
    require_real(self, "float");
    return as_float(self, "float");
  });
}

PyObject* int_slot(PyObject* self) {
  return guarded([&] {
    require_real(self, "int");
    return as_int(self, "int");
  });
}

PyObject* as_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const DType dtype = impl_of(self)->view.dtype;
    if (!is_integer(dtype) && dtype != DType::kBool) {
      raise_type(std::string("[index] expected an integer tensor, got ") + name_of(dtype));
    }
    return as_int(self, "index");
  });
}

template <class F>
PyType_Slot slot(int id, F f) {
  return {id, reinterpret_cast<void*>(f)};
}

}  // namespace

PyObject* as_float(PyObject* self, const char* what) {
  return guarded([&] { return PyFloat_FromDouble(to_double(one_element(self, what))); });
}

PyObject* as_int(PyObject* self, const char* what) {
  return guarded([&] {
    const Tensor x = one_element(self, what);
    if (x.dtype() == DType::kI64) return PyLong_FromLongLong(*x.data<int64_t>());
    return PyLong_FromDouble(to_double(x));
  });
}

bool add_number_slots(std::vector<PyType_Slot>* slots) {
  slots->insert(
      slots->end(),
      {slot(Py_nb_add, binary<OpId::add>), slot(Py_nb_subtract, binary<OpId::sub>),
       slot(Py_nb_multiply, binary<OpId::mul>), slot(Py_nb_true_divide, binary<OpId::div>),
       slot(Py_nb_floor_divide, binary<OpId::floor_div>), slot(Py_nb_remainder, binary<OpId::mod>),
       slot(Py_nb_power, power), slot(Py_nb_matrix_multiply, matrix_product),
       slot(Py_nb_negative, unary<OpId::neg>), slot(Py_nb_positive, positive),
       slot(Py_nb_absolute, unary<OpId::abs>), slot(Py_nb_invert, unary<OpId::bitwise_not>),
       slot(Py_nb_and, binary<OpId::bitwise_and>), slot(Py_nb_or, binary<OpId::bitwise_or>),
       slot(Py_nb_xor, binary<OpId::bitwise_xor>), slot(Py_nb_bool, truth),
       slot(Py_nb_float, float_slot), slot(Py_nb_int, int_slot), slot(Py_nb_index, as_index)});
  return true;
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_EQ:
      return binary<OpId::equal>(a, b);
    case Py_NE:
      return binary<OpId::not_equal>(a, b);
    case Py_LT:
      return binary<OpId::less_than>(a, b);
    case Py_LE:
      return binary<OpId::less_equal>(a, b);
    case Py_GT:
      return binary<OpId::greater_than>(a, b);
    default:
      return binary<OpId::greater_equal>(a, b);
  }
}

}  // namespace proa::bind
