"""Equal requests are answered from memory, within its bound."""

import numpy as np

from proa_serving.client import HttpClient
from proa_serving.models.cache import ResponseCache, cache_key

from .test_batching import samples, value

MODEL = """
import numpy as np
inputs = [("x", "FP32", (-1,)), ("text", "BYTES", (-1,))]
outputs = [("y", "FP32", (-1,)), ("runs", "INT64", ())]
ran = 0

def run(inputs):
    global ran
    ran += 1
    return {"y": inputs["x"] * 2, "runs": ran}
"""


def test_an_equal_request_is_not_run_again_until_the_model_changes(serve, tmp_path):
    path = tmp_path / "m" / "1" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text(MODEL)
    (tmp_path / "m" / "config.toml").write_text("cache = true\nwarmup = false")
    options = {"python_models": True, "model_control": True}
    with (
        serve(repository=tmp_path, **options) as server,
        HttpClient(server.http_address) as client,
    ):

        def infer(x, text="a"):
            inputs = {"x": np.array(x, np.float32), "text": np.array([text])}
            answer = client.infer("m", inputs)
            return answer["y"].tolist(), int(answer["runs"])

        assert infer([1, 2]) == ([2, 4], 1)
        assert infer([1, 3]) == ([2, 6], 2)
        assert infer([1, 2]) == ([2, 4], 1)
        assert infer([1, 2], "b") == ([2, 4], 3)
        found = samples(client)
        assert value(found, "cache_hits_total", "m") == 1
        assert value(found, "cache_misses_total", "m") == 3
        assert found[("proa_serve_cache_bytes",)] > 0
        path.write_text(MODEL.replace("* 2", "* 5"))
        client.load_model("m")
        assert infer([1, 2]) == ([5, 10], 1)


def test_the_cache_keeps_what_was_used_last_within_its_bound():
    cache = ResponseCache(5000)
    keys = []
    for at in range(10):
        array = np.full(100, at, np.float64)
        keys.append(cache_key(1, {"x": array}))
        cache.put(keys[-1], {"y": array})
        assert cache.used <= 5000
        assert cache.get(keys[0])["y"][0] == 0  # used all the time
    assert cache.get(keys[1]) is None
    assert cache.get(keys[9])["y"][0] == 9
    cache.put(b"large", {"y": np.zeros(10_000)})
    assert cache.get(b"large") is None


def test_keys_differ_where_requests_do():
    x = np.arange(4, dtype=np.int32)
    texts = [np.array(held, object) for held in (["ab", "c"], ["a", "bc"], ["ab", "c"])]
    keys = [
        cache_key(1, {"x": x}),
        cache_key(2, {"x": x}),
        cache_key(1, {"y": x}),
        cache_key(1, {"x": x.reshape(2, 2)}),
        cache_key(1, {"x": x.view(np.float32)}),
        cache_key(1, {"x": texts[0]}),
        cache_key(1, {"x": texts[1]}),
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key(1, {"x": texts[2]}) == keys[5]
    assert cache_key(1, {"x": np.zeros(2**20)}) is None


def test_a_cached_answer_is_not_a_view_of_what_changes():
    cache = ResponseCache(10_000)
    batch = np.ones(8)
    cache.put(b"k", {"y": batch[2:4]})
    batch[:] = 7
    assert cache.get(b"k")["y"].tolist() == [1, 1]
