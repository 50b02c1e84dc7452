#include "engine_run.h"

#include <cstring>
#include <memory>

#include "proa/train/run.h"
#include "proa/train/tape.h"
#include "proa/train/watch.h"
#include "python.h"

namespace py = pybind11;

namespace proa {

namespace {

py::object error_type(Status status) {
  const char* name = "InvalidArgumentError";
  if (status == Status::kUnimplemented) name = "UnimplementedError";
  if (status == Status::kResourceExhausted) name = "ResourceExhaustedError";
  if (status == Status::kOutOfRange) name = "OutOfRangeError";
  if (status == Status::kVersion) name = "VersionError";
  return py::module_::import("proa.errors").attr(name);
}

}  // namespace

void set_engine_error(const EngineError& error) {
  py::object produced = error_type(error.status)(error.what());
  if (!error.node.empty()) produced.attr("node") = error.node;
  PyErr_SetObject(py::type::of(produced).ptr(), produced.ptr());
}

namespace {

// Numbers as the 8 bytes of an attribute.
std::vector<int64_t> bits_of(const py::sequence& numbers) {
  std::vector<int64_t> bits;
  bits.reserve(numbers.size());
  for (const py::handle number : numbers) {
    int64_t word;
    if (PyFloat_Check(number.ptr())) {
      const double value = PyFloat_AS_DOUBLE(number.ptr());
      std::memcpy(&word, &value, sizeof word);
    } else {
      word = PyLong_AsLongLong(number.ptr());
      if (PyErr_Occurred()) throw py::error_already_set();
    }
    bits.push_back(word);
  }
  return bits;
}

// A run with the tensors that it reads (none where only the second part does) and those that it
// made, which are the outputs that overwrite no input.
struct TensorRun {
  std::vector<Tensor> tensors, produced;
  EngineRun run;
};

View view_of(const IoSpec& spec) {
  View view;
  view.dtype = spec.dtype;
  view.rank = static_cast<int8_t>(spec.shape.size());
  for (int a = 0; a < view.rank; ++a) view.shape[a] = spec.shape[static_cast<size_t>(a)];
  view.set_contiguous();
  return view;
}

void take_views(const Engine& engine, TensorRun* run) {
  const size_t count = run->tensors.size();
  if (count != engine.inputs().size()) {
    throw EngineError(Status::kInvalidArgument, "[Engine] expected " +
                                                    std::to_string(engine.inputs().size()) +
                                                    " inputs, got " + std::to_string(count));
  }
  run->run.inputs.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& x = run->tensors[i];
    run->run.inputs[i] = x ? x->view : view_of(engine.inputs()[i]);
    if (x && x->view.data == nullptr && x->view.numel() > 0) {
      throw EngineError(Status::kInvalidArgument,
                        "[Engine] expected inputs with memory, got a tensor without");
    }
  }
}

// Runs the part, which adds to what is made.
void run_part(Engine& engine, RunPart part, TensorRun* run) {
  run->run.give = [run](View* outputs, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      if (outputs[i].rank < 0) continue;
      run->produced.push_back(empty_as(outputs[i]));
      outputs[i] = run->produced.back().view();
    }
  };
  {
    const Timed timed("program", EventKind::kOp);
    const bind::WithoutLock others;
    engine.run_part(part, &run->run);
  }
  if (part == RunPart::kSecond) return;
  for (const uint32_t input : engine.options().updates.stores) {
    if (input != kNoInput) run->tensors[input]->storage->bump_version();
  }
}

py::list list_of(const std::vector<Tensor>& tensors) {
  py::list list(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyObject* x = bind::wrap(tensors[i]);
    if (x == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), x);
  }
  return list;
}

// The second part of a run.
class ProgramBackward final : public CustomBackward {
 public:
  ProgramBackward(PyObject* engine, const TapePlan& plan, std::unique_ptr<TensorRun> run,
                  const std::vector<Tensor>& wanted)
      : owner_(bind::keep(engine)),
        engine_(py::cast<Engine&>(py::handle(engine))),
        seeds_(plan.seeds),
        parts_(plan.parts),
        tables_(wanted.size()),
        run_(std::move(run)) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (parts_[i] > 1) tables_[i] = wanted[i];
    }
    for (const uint32_t i : plan.reread_inputs) {
      if (run_->tensors[i]) watch(run_->tensors[i]);
    }
    // Without their place on the tape, as that holds this node.
    for (Tensor& x : run_->produced) x = detach(x);
    for (const uint32_t i : plan.reread_results) watch(run_->produced[i]);
    first_ = run_->tensors;
  }

  const char* name() const override { return "to_static"; }
  void free_saved() override {
    run_ = nullptr;
    first_.clear();
    watched_.clear();
  }

  void run(std::vector<Tensor>& grads, std::vector<Tensor>* result) override {
    check();
    run_->tensors = first_;
    for (size_t k = 0; k < seeds_.size(); ++k) {
      const Tensor& grad = grads[k];
      // The first part was planned for gradients in row-major order.
      const GradMode off(false);
      run_->tensors[seeds_[k].first] =
          grad->has(TensorImpl::kContiguous) ? grad : contiguous(grad.get());
    }
    run_->run.keeps = retains_graph();
    const size_t before = run_->produced.size();
    try {
      take_views(engine_, run_.get());
      run_part(engine_, RunPart::kSecond, run_.get());
    } catch (const EngineError& error) {
      set_engine_error(error);
      throw bind::PythonError();
    }
    result->resize(parts_.size());
    size_t at = before;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i] == 1) (*result)[i] = std::move(run_->produced[at]);
      if (parts_[i] > 1) {
        (*result)[i] = row_sparse(std::move(run_->produced[at]), std::move(run_->produced[at + 1]),
                                  tables_[i]);
      }
      at += parts_[i];
    }
    run_->produced.resize(before);
    run_->tensors.clear();
  }

 private:
  void watch(const Tensor& x) { watched_.emplace_back(x, x->version()); }

  void check() const {
    if (run_ == nullptr) raise_freed("to_static");
    if (grad_enabled()) {
      throw Error(ErrorKind::kUnimplemented,
                  "[to_static] gradients of gradients must be computed without to_static, got "
                  "create_graph=True");
    }
    for (const auto& [x, version] : watched_) {
      if (x->version() == version) continue;
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[backward] a tensor that a recorded function's backward pass reads was "
                  "modified in place");
    }
  }

  std::shared_ptr<void> owner_;
  Engine& engine_;
  std::vector<std::pair<uint32_t, uint32_t>> seeds_;
  std::vector<uint32_t> parts_;
  std::vector<Tensor> tables_;  // of row-sparse gradients
  std::unique_ptr<TensorRun> run_;
  std::vector<Tensor> first_;
  std::vector<std::pair<Tensor, uint32_t>> watched_;
};

}  // namespace

py::list run_whole(Engine& engine, const py::sequence& inputs, const py::sequence& numbers) {
  return crossing([&] {
    TensorRun run;
    run.tensors = bind::to_tensors(inputs.ptr(), "Engine", true);
    take_views(engine, &run);
    run.run.numbers = bits_of(numbers);
    run_part(engine, RunPart::kWhole, &run);
    return list_of(run.produced);
  });
}

py::list run_on_tape(const py::object& engine, const py::sequence& inputs,
                     const py::sequence& numbers, const py::sequence& wanted,
                     const TapePlan& plan) {
  return crossing([&] {
    auto run = std::make_unique<TensorRun>();
    auto& on = py::cast<Engine&>(engine);
    run->tensors = bind::to_tensors(inputs.ptr(), "Engine", true);
    take_views(on, run.get());
    run->run.numbers = bits_of(numbers);
    run_part(on, RunPart::kFirst, run.get());
    std::vector<Tensor> results = run->produced;
    results.resize(plan.results);
    const auto leaves = bind::to_tensors(wanted.ptr(), "Engine", false);
    auto custom = std::make_unique<ProgramBackward>(engine.ptr(), plan, std::move(run), leaves);
    Node* node = Node::create_custom(std::move(custom), static_cast<int>(leaves.size()),
                                     static_cast<int>(plan.seeds.size()));
    for (size_t i = 0; i < leaves.size(); ++i) node->connect(static_cast<int>(i), leaves[i].get());
    for (size_t k = 0; k < plan.seeds.size(); ++k) {
      node->adopt(static_cast<int>(k), results[plan.seeds[k].second].get());
    }
    node->drop();
    return list_of(results);
  });
}

}  // namespace proa
