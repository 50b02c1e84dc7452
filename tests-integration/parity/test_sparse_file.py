"""A file with sparse weights computes in every runtime what the dense one does."""

import numpy as np

import proa
import proa_inference
import proa_lite
from proa import nn
from proa.static import InputSpec
from proa_slim import UnstructuredPruner
from proa_slim.prune import save_sparse


def test_sparse_weights_give_the_same_bits_in_every_runtime(tmp_path):
    proa.seed(2)
    net = nn.Sequential(nn.Linear(48, 70), nn.ReLU(), nn.Linear(70, 33)).eval()
    UnstructuredPruner(net, "ratio", ratio=0.8).step()
    spec = [InputSpec([None, 48], "float32", "x")]
    dense, sparse = str(tmp_path / "dense.proa"), str(tmp_path / "sparse.proa")
    proa.jit.save(net, dense, spec)
    assert len(save_sparse(net, sparse, spec)) == 2
    x = np.random.default_rng(0).normal(size=(3, 48)).astype("float32")
    for package in (proa_inference, proa_lite):
        want, got = (
            package.create_predictor(package.Config(path)).run([x])[0]
            for path in (dense, sparse)
        )
        assert want.tobytes() == got.tobytes()
