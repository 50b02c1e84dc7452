"""Sensitivity of layers: which one is to blame, what stays in float32, resuming."""

import html.parser
import json

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import AnalysisPTQ, QuantConfig

SPEC = [InputSpec([None, 16], "float32", "x")]
CONFIG = QuantConfig("abs_max", "abs_max")


def network():
    """Three products; the second has great weights for an input that is small."""
    proa.seed(1)
    net = nn.Sequential(
        nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)
    )
    for layer, at, factor in ((net[0], np.s_[:, 0], 1e-5), (net[2], np.s_[0], 300.0)):
        weight = layer.weight.numpy()
        weight[at] *= factor
        layer.weight.set_value(weight)
    return net


X = np.random.default_rng(3).standard_normal((256, 16)).astype(np.float32)


class Metric:
    """Percentage of X whose label is that of float32; counts its calls."""

    def __init__(self, net):
        self.labels = net(proa.to_tensor(X)).numpy().argmax(1)
        self.calls = 0
        self.stop_at = None
        self.values = {}

    def __call__(self, model):
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        if self.calls in self.values:
            return self.values[self.calls]
        return 100 * float((model(X).argmax(1) == self.labels).mean())


@pytest.fixture
def parts(tmp_path):
    net = network()
    metric = Metric(net)

    def analysis(**more):
        return AnalysisPTQ(
            net, SPEC, [X], metric, tmp_path / "a", quant_config=CONFIG, **more
        )

    return metric, analysis, tmp_path / "a"


def test_each_layer_is_measured_alone_and_the_culprit_comes_first(parts, capsys):
    metric, analysis, _ = parts
    found = analysis()
    alone = found.metric_error_analyse()
    assert next(iter(alone)) == "2" and set(alone) == {"0", "2", "4"}
    assert alone["2"] < 90 < min(alone["0"], alone["4"])
    assert found.base_metric == 100.0
    assert metric.calls == 4
    text = capsys.readouterr().err
    assert "'2' alone in int8" in text and "[1/5] float32: 100" in text


def test_layers_stay_in_float_until_the_drop_is_met(parts):
    metric, analysis, _ = parts
    found = analysis(progress=False)
    assert found.quant_metric < 90
    model = found.search(max_drop=5.0)
    assert metric(model) >= 95
    assert model.unquantized == {"2": "named in skip"}
    assert [row.layer for row in model.report] == ["0", "4"]
    half = found.search(max_drop=5.0, rest="float16")
    assert metric(half) >= 95 and half.unquantized == {"2": "named in half"}
    kinds = {v.dtype for v in half.program.constants() if v.name == "2.weight"}
    assert kinds == {"float16"}
    every = found.search(max_drop=100.0)
    assert not every.unquantized and len(every.report) == 3


def test_a_target_that_no_layer_meets_names_the_best_layer(parts):
    _, analysis, _ = parts
    with pytest.raises(
        PreconditionNotMetError, match=r"float32 has 100, with '[04]' al"
    ):
        analysis(progress=False).get_target_quant_model(100.5)


def test_a_stopped_search_repeats_only_the_evaluation_in_progress(parts):
    metric, analysis, folder = parts
    metric.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        analysis(progress=False).metric_error_analyse()
    assert len(json.loads((folder / "analysis.json").read_text())["trials"]) == 2
    resumed = analysis(progress=False, resume=True)
    whole = resumed.metric_error_analyse()
    assert metric.calls == 3 + 2
    fresh = analysis(progress=False)
    assert fresh.metric_error_analyse() == whole
    assert metric.calls == 5 + 4


@pytest.mark.parametrize(
    ("call", "value", "text"),
    [(1, np.nan, "got nan with float32"), (3, np.inf, "got inf with '2' alone")],
)
def test_a_metric_that_is_not_finite_names_the_layer_and_is_not_stored(
    parts, call, value, text
):
    metric, analysis, _ = parts
    metric.values = {call: value}
    with pytest.raises(InvalidArgumentError, match=f"finite metric, {text}"):
        analysis(progress=False).metric_error_analyse()
    whole = analysis(progress=False, resume=True).metric_error_analyse()
    assert next(iter(whole)) == "2" and metric.calls == 1 + 4


def test_evaluations_of_another_network_are_refused(parts, tmp_path):
    metric, analysis, folder = parts
    assert analysis(progress=False).base_metric == 100
    other = network()
    other[0].bias.set_value(np.ones(16, np.float32))
    with pytest.raises(PreconditionNotMetError, match="those of another"):
        AnalysisPTQ(other, SPEC, [X], metric, folder, True, CONFIG)


def test_measuring_needs_a_function_and_the_page_does_not(tmp_path):
    found = AnalysisPTQ(network(), SPEC, [X], save_dir=tmp_path, quant_config=CONFIG)
    with pytest.raises(PreconditionNotMetError, match="expected an eval_function"):
        found.metric_error_analyse()
    assert found.statistical_analyse().is_file()


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_has_histograms_and_drops_and_reads_nothing_else(parts):
    _, analysis, folder = parts
    found = analysis(progress=False)
    found.metric_error_analyse()
    path = found.statistical_analyse()
    assert path == folder / "report.html"
    page = Page()
    page.feed(path.read_text())
    assert page.tags.count("svg") == 6 and page.tags.count("tr") == 4
    assert page.tags.count("line") >= 3
    assert not page.links
    # The layer with the greatest drop is first.
    rows = "".join(page.text).split("max error")[1]
    assert rows.index("2linear") < min(rows.index("0linear"), rows.index("4linear"))


def test_histograms_count_every_value_once():
    from proa_slim.quant.page import histograms
    from proa_slim.quant.post_training import prepare, products, program_of

    program = program_of(network(), SPEC)
    nodes = products(program, CONFIG)
    scales = prepare(program, [[X]], CONFIG).scales
    found = histograms(program, nodes, [[X[:100]], [X[100:]]], scales)
    inputs, weights = found[nodes[0].outputs[0].name]
    want = np.histogram(X, 64)
    np.testing.assert_array_equal(inputs.counts, want[0])
    assert (inputs.low, inputs.high) == pytest.approx((X.min(), X.max()))
    assert max(inputs.limits) == pytest.approx(np.abs(X).max())
    assert weights.counts.sum() == 256
