"""Programs of Paddle 1.x, of which paddlepaddle 1.8.5 gave the results in
`paddle_1_8.json`.

`fluid_reference.py`, run by a Python that has this wheel (3.7), writes them. A case is
the lines of a function that returns a list of what is fetched; and what is fed:
arrays, or (rows, lengths).
"""

import numpy as np

RNG = np.random.RandomState(0)


def _normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def _boxes(count, size=10.0):
    low = RNG.uniform(0, size * 0.6, (count, 2))
    return np.concatenate(
        [low, low + RNG.uniform(1, size * 0.4, (count, 2))], 1
    ).astype("float32")


def _scores(*shape):
    return RNG.uniform(0, 1, shape).astype("float32")


CASES = {}


def case(name, body, steps=1, **feed):
    CASES[name] = (body, feed, steps)


FEATURES = _normal(2, 3, 3, 4)
case("anchor_generator", """
return list(layers.anchor_generator(
    x, anchor_sizes=[32, 64.], aspect_ratios=[0.5, 1.0, 2.0], stride=[16.0, 16.0],
    variance=[0.1, 0.1, 0.2, 0.2], offset=0.5))
""", x=FEATURES)  # fmt: skip
case("density_prior_box", """
return list(layers.density_prior_box(
    x, image, densities=[2, 1], fixed_sizes=[8.0, 16.0], fixed_ratios=[1.0, 2.0],
    clip=True))
""", x=FEATURES, image=_normal(2, 3, 24, 32))  # fmt: skip
case("density_prior_box of rows", """
return list(layers.density_prior_box(
    x, image, densities=[3], fixed_sizes=[8.0], fixed_ratios=[1.0], steps=[8.0, 8.0],
    flatten_to_2d=True))
""", x=FEATURES, image=_normal(2, 3, 24, 32))  # fmt: skip
case("polygon_box_transform", "return [layers.polygon_box_transform(x)]",
     x=_normal(2, 8, 3, 4))  # fmt: skip
INFO = np.asarray([[8.0, 9.0, 1.0], [10.0, 20.0, 2.0]], "float32")
case("box_clip", "return [layers.box_clip(x, info)]",
     x=(_boxes(5) * 1.5 - 2, [[2, 3]]), info=INFO)  # fmt: skip
case("box_decoder_and_assign", """
return list(layers.box_decoder_and_assign(boxes, variance, codes, scores, 4.135))
""", boxes=_boxes(5), variance=np.asarray([0.1, 0.1, 0.2, 0.2], "float32"),
     codes=_normal(5, 12), scores=_scores(5, 3))  # fmt: skip
MATCHES = (_scores(5, 6) * (_scores(5, 6) > 0.3), [[2, 3]])
case("bipartite_match", "return list(layers.bipartite_match(x))", x=MATCHES)
case(
    "bipartite_match per prediction",
    """
return list(layers.bipartite_match(x, 'per_prediction', 0.4))
""",
    x=MATCHES,
)
case("target_assign", """
found, _ = layers.bipartite_match(x)
return list(layers.target_assign(y, found, mismatch_value=7)) + list(
    layers.target_assign(label, found, negative, 0))
""", x=MATCHES, y=(_normal(5, 6, 4), [[2, 3]]),
     label=(np.arange(1, 6).reshape(5, 1, 1).astype("int32"), [[2, 3]]),
     negative=(np.asarray([[1], [0], [5]], "int32"), [[1, 2]]))  # fmt: skip
PRIORS = _boxes(6) / 10
case("ssd_loss", """
x.stop_gradient = scores.stop_gradient = False
loss = layers.ssd_loss(x, scores, boxes, label, priors, variance, overlap_threshold=0.2,
                       neg_overlap=0.2)
return [loss] + fluid.gradients(layers.reduce_sum(loss), [x, scores])
""", x=_normal(2, 6, 4), scores=_normal(2, 6, 3), boxes=(_boxes(5) / 10, [[2, 3]]),
     label=(np.asarray([[1], [2], [1], [1], [2]], "int32"), [[2, 3]]),
     priors=PRIORS, variance=np.full((6, 4), 0.1, "float32"))  # fmt: skip
case("multiclass_nms", """
return [layers.multiclass_nms(x, scores, 0.2, 5, 4, 0.3, background_label=0)]
""", x=np.stack([_boxes(6), _boxes(6)]) / 10, scores=_scores(2, 3, 6))  # fmt: skip
case("multiclass_nms of polygons", """
return [layers.multiclass_nms(x, scores, 0.2, 6, 4, 0.2, background_label=-1)]
""", x=np.stack([_boxes(6), _boxes(6)])[:, :, [0, 1, 2, 1, 2, 3, 0, 3]]
     + 0.3 * _scores(2, 6, 8), scores=_scores(2, 2, 6))  # fmt: skip
case(
    "multiclass_nms of rows",
    """
return [layers.multiclass_nms(x, scores, 0.1, 5, 4, 0.3, normalized=False)]
""",
    x=(_boxes(21).reshape(7, 3, 4), [[3, 4]]),
    scores=(_scores(7, 3), [[3, 4]]),
)
case("detection_output", """
return [layers.detection_output(x, scores, priors, variance, nms_threshold=0.4,
                                keep_top_k=4, nms_top_k=6, score_threshold=0.1)]
""", x=_normal(2, 6, 4), scores=_normal(2, 6, 3), priors=PRIORS,
     variance=np.full((6, 4), 0.1, "float32"))  # fmt: skip
case("locality_aware_nms", """
return [layers.locality_aware_nms(x, scores, 0.3, 10, 5, 0.2, normalized=False)]
""", x=np.sort(_boxes(8), 0)[None], scores=_scores(1, 1, 8))  # fmt: skip
case("retinanet_detection_output", """
return [layers.retinanet_detection_output(
    [x, y], [scores, others], [anchors, corners], info, 0.3, 8, 6, 0.4)]
""", x=_normal(2, 5, 4) / 5, y=_normal(2, 3, 4) / 5, scores=_scores(2, 5, 2),
     others=_scores(2, 3, 2), anchors=_boxes(5), corners=_boxes(3),
     info=INFO)  # fmt: skip
ANCHORS = _boxes(24).reshape(2, 3, 4, 4)
case("generate_proposals", """
return list(layers.generate_proposals(
    scores, codes, info, anchors, variance, pre_nms_top_n=15, post_nms_top_n=6,
    nms_thresh=0.4, min_size=2.0))
""", scores=_scores(2, 4, 2, 3), codes=_normal(2, 16, 2, 3) / 4, info=INFO,
     anchors=ANCHORS, variance=np.ones((2, 3, 4, 4), "float32"))  # fmt: skip
SIZES = np.concatenate([_boxes(2, 40.0), _boxes(2, 160.0), _boxes(2, 900.0)])
case(
    "distribute_fpn_proposals",
    """
found, place = layers.distribute_fpn_proposals(x, 2, 4, 3, 60)
return found + [place]
""",
    x=(SIZES, [[2, 4]]),
)
case("collect_fpn_proposals", """
return [layers.collect_fpn_proposals([x, y], [scores, others], 2, 3, 5)]
""", x=(_boxes(4), [[1, 3]]), y=(_boxes(3), [[2, 1]]), scores=(_scores(4, 1), [[1, 3]]),
     others=(_scores(3, 1), [[2, 1]]))  # fmt: skip
FOUND = (_boxes(5), [[2, 3]])
CROWD = (np.asarray([[0], [0], [0], [1], [0]], "int32"), [[2, 3]])
LARGE = np.asarray([[12.0, 13.0, 1.0], [20.0, 20.0, 1.0]], "float32")
case("rpn_target_assign", """
return list(layers.rpn_target_assign(
    x, scores, anchors, variance, boxes, crowd, info, rpn_batch_size_per_im=8,
    rpn_straddle_thresh=0.0, rpn_fg_fraction=0.5, rpn_positive_overlap=0.4,
    rpn_negative_overlap=0.2, use_random=False))
""", x=_normal(2, 24, 4), scores=_normal(2, 24, 1), anchors=ANCHORS.reshape(24, 4),
     variance=np.ones((24, 4), "float32"), boxes=FOUND, crowd=CROWD,
     info=LARGE)  # fmt: skip
case("retinanet_target_assign", """
return list(layers.retinanet_target_assign(
    x, scores, anchors, variance, boxes, label, crowd, info, num_classes=3,
    positive_overlap=0.4, negative_overlap=0.2))
""", x=_normal(2, 24, 4), scores=_normal(2, 24, 3), anchors=ANCHORS.reshape(24, 4),
     variance=np.ones((24, 4), "float32"), boxes=FOUND,
     label=(np.asarray([[1], [2], [3], [1], [2]], "int32"), [[2, 3]]), crowd=CROWD,
     info=LARGE)  # fmt: skip
case("generate_proposal_labels", """
return list(layers.generate_proposal_labels(
    x, label, crowd, boxes, info, batch_size_per_im=6, fg_fraction=0.5, fg_thresh=0.3,
    bg_thresh_hi=0.3, bg_thresh_lo=0.0, class_nums=4, use_random=False))
""", x=(_boxes(9), [[4, 5]]),
     label=(np.asarray([[1], [2], [3], [1], [2]], "int32"), [[2, 3]]), crowd=CROWD,
     boxes=FOUND, info=LARGE)  # fmt: skip
case("psroi_pool", "return [layers.psroi_pool(x, boxes, 2, 0.5, 2, 2)]",
     x=_normal(2, 8, 6, 6), boxes=(_boxes(3), [[1, 2]]))  # fmt: skip
case("prroi_pool", "return [layers.prroi_pool(x, boxes, 0.5, 2, 2)]",
     x=_normal(2, 3, 6, 6), boxes=(_boxes(3), [[1, 2]]))  # fmt: skip
case("add_position_encoding", "return [layers.add_position_encoding(x, 0.5, 2.0)]",
     x=_normal(2, 3, 6))  # fmt: skip
case(
    "add_position_encoding of rows",
    """
return [layers.add_position_encoding(x, 1.0, 0.5)]
""",
    x=(_normal(5, 4), [[2, 3]]),
)
case(
    "MultivariateNormalDiag",
    """
a = layers.MultivariateNormalDiag(x, layers.diag(spread))
b = layers.MultivariateNormalDiag(y, layers.diag(other))
return [a.entropy(), a.kl_divergence(b)]
""",
    x=_normal(3),
    y=_normal(3),
    spread=_scores(3) + 0.1,
    other=_scores(3) + 0.1,
)
case(
    "autoincreased_step_counter",
    """
return [layers.autoincreased_step_counter('global', begin=3, step=2)]
""",
    steps=3,
)
case(
    "continuous_value_model",
    """
return [layers.continuous_value_model(x, y), layers.continuous_value_model(x, y, False)]
""",
    x=(_scores(3, 5), [[1, 2]]),
    y=_scores(3, 2),
)
case("similarity_focus", "return [layers.similarity_focus(x, 1, [0, 2])]",
     x=_normal(2, 3, 3, 4))  # fmt: skip
case("filter_by_instag", """
return list(layers.filter_by_instag(x, tags, wanted, True))[:1]
""", x=(_normal(5, 2), [[2, 1, 2]]),
     tags=(np.asarray([[1], [2], [3], [1]], "int64"), [[1, 2, 1]]),
     wanted=np.asarray([1], "int64"))  # fmt: skip
case("sampled_softmax_with_cross_entropy", """
return [layers.sampled_softmax_with_cross_entropy(
    x, label, 3, use_customized_samples=True, customized_samples=chosen,
    customized_probabilities=chance)]
""", x=_normal(2, 8), label=np.asarray([[1], [4]], "int64"),
     chosen=np.asarray([[1, 5, 4, 0], [4, 5, 4, 0]], "int64"),
     chance=_scores(2, 4) + 0.1)  # fmt: skip

case("beam_search", """
rng = np.random.RandomState(7)

def attr(name, *shape):
    value = rng.standard_normal(shape).astype('float32')
    return fluid.ParamAttr(name=name, initializer=
                           fluid.initializer.NumpyArrayInitializer(value))

first, words, again = attr('first', 3, 4), attr('words', 6, 4), attr('again', 4, 4)
added, out = attr('added', 4, 4), attr('out', 4, 6)
state = layers.fc(x, 4, param_attr=first, bias_attr=False, act='tanh')
array_len = layers.fill_constant(shape=[1], dtype='int64', value=6)
counter = layers.zeros(shape=[1], dtype='int64', force_cpu=True)
state_array = layers.create_array('float32')
layers.array_write(state, array=state_array, i=counter)
ids_array, scores_array = layers.create_array('int64'), layers.create_array('float32')
layers.array_write(init_ids, array=ids_array, i=counter)
layers.array_write(init_scores, array=scores_array, i=counter)
cond = layers.less_than(x=counter, y=array_len)
while_op = layers.While(cond=cond)
with while_op.block():
    pre_ids = layers.array_read(array=ids_array, i=counter)
    pre_state = layers.array_read(array=state_array, i=counter)
    pre_score = layers.array_read(array=scores_array, i=counter)
    expanded = layers.sequence_expand(pre_state, pre_score)
    embedded = layers.embedding(pre_ids, [6, 4], param_attr=words)
    current = layers.fc([expanded, embedded], 4, param_attr=[again, added],
                        bias_attr=False, act='tanh')
    with_lod = layers.lod_reset(x=current, y=pre_score)
    score = layers.fc(with_lod, 6, param_attr=out, bias_attr=False, act='softmax')
    top, indices = layers.topk(score, k=3)
    total = layers.elementwise_add(
        x=layers.log(top), y=layers.reshape(pre_score, shape=[-1]), axis=0)
    ids, scores = layers.beam_search(
        pre_ids, pre_score, indices, total, 3, end_id=1, level=0)
    layers.increment(x=counter, value=1, in_place=True)
    layers.array_write(current, array=state_array, i=counter)
    layers.array_write(ids, array=ids_array, i=counter)
    layers.array_write(scores, array=scores_array, i=counter)
    length_cond = layers.less_than(x=counter, y=array_len)
    finish_cond = layers.logical_not(layers.is_empty(x=ids))
    layers.logical_and(x=length_cond, y=finish_cond, out=cond)
found = layers.beam_search_decode(ids_array, scores_array, beam_size=3, end_id=1)
return list(found) + [layers.array_length(ids_array)]
""", x=_normal(2, 3) * 2, init_ids=(np.zeros((2, 1), "int64"), [[1, 1], [1, 1]]),
     init_scores=(np.zeros((2, 1), "float32"), [[1, 1], [1, 1]]))  # fmt: skip
case("beam_search of probabilities", """
ids, scores, parents = layers.beam_search(
    x, y, None, scores, 2, end_id=3, is_accumulated=False, return_parent_idx=True)
return [ids, scores, parents]
""", x=(np.asarray([[3], [0], [1]], "int64"), [[2, 1], [1, 1, 1]]),
     y=(np.asarray([[-0.1], [-0.2], [-0.3]], "float32"), [[2, 1], [1, 1, 1]]),
     scores=(_scores(3, 4) + 0.1, [[2, 1], [1, 1, 1]]))  # fmt: skip

TRAINED = """
w = layers.create_parameter([4, 2], 'float32', attr=fluid.ParamAttr(
    name='w', initializer=fluid.initializer.NumpyArrayInitializer(start)))
loss = layers.mean(layers.square(layers.mul(x, w)))
{optimizer}
return [loss, w]
"""
BATCH, START = _normal(3, 4), _normal(4, 2)


def trained(name, optimizer, steps=4):
    case(name, TRAINED.format(optimizer=optimizer), steps, x=BATCH)


for _name, _given in (
    ("Ftrl", "0.1, l1=0.05, l2=0.05"),
    ("FtrlOptimizer", "0.1, lr_power=-0.6"),
    ("DecayedAdagrad", "0.1, decay=0.8"),
    ("DecayedAdagradOptimizer", "0.1, regularization=fluid.regularizer.L2Decay(0.1)"),
    ("LarsMomentum", "0.1, 0.9, lars_coeff=0.05"),
    ("LarsMomentumOptimizer", "0.1, 0.9, lars_weight_decay=0.0"),
):
    trained(_name, f"fluid.optimizer.{_name}({_given}).minimize(loss)")
trained("Dpsgd", "fluid.optimizer.Dpsgd(0.1, 0.5, 1e9, 0.0).minimize(loss)")
trained(
    "LookaheadOptimizer",
    """
fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), 0.4, 2).minimize(loss)
""",
    5,
)
for _name in (
    "exponential_decay(0.1, 2, 0.5)",
    "exponential_decay(0.1, 2, 0.5, staircase=True)",
    "natural_exp_decay(0.1, 2, 0.5)",
    "inverse_time_decay(0.1, 2, 0.5)",
    "polynomial_decay(0.1, 3, 0.01, 2.0)",
    "polynomial_decay(0.1, 2, 0.01, cycle=True)",
    "piecewise_decay([2, 4], [0.1, 0.05, 0.02])",
    "cosine_decay(0.1, 2, 4)",
    "noam_decay(4, 3)",
    "linear_lr_warmup(layers.exponential_decay(0.1, 2, 0.5), 2, 0.01, 0.1)",
):
    trained(
        _name,
        f"""
rate = layers.{_name}
fluid.optimizer.Ftrl(rate, l1=0.01, l2=0.01).minimize(loss)
""",
        6,
    )
trained(
    "set_gradient_clip",
    """
fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(0.3), program=
                             fluid.default_main_program())
fluid.optimizer.SGD(0.5).minimize(loss)
""",
)
trained(
    "RecomputeOptimizer",
    """
wrapped = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
wrapped._set_checkpoints([loss])
wrapped.minimize(loss)
""",
)

trained(
    "ModelAverage",
    f"""
fluid.optimizer.Momentum(0.2, 0.5).minimize(loss)
average = fluid.optimizer.ModelAverage(0.5, 2, 4)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
for _ in range({7}):
    exe.run(feed={{'x': batch}}, fetch_list=[loss])
with average.apply(exe):
    held = np.array(fluid.global_scope().find_var('w').get_tensor())
return [layers.assign(held)]
""",
)

PROGRAM = """
import numpy as np
import paddle.fluid as fluid
from paddle.fluid import layers

start = np.asarray({start}, "float32")
batch = np.asarray({batch}, "float32")

def build():
{data}
{body}

def run(feed, steps):
    fetch = build()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fed = {{}}
    for name, given in feed.items():
        if isinstance(given, tuple):
            given = fluid.create_lod_tensor(given[0], given[1], fluid.CPUPlace())
        fed[name] = given
    for _ in range(steps):
        found = exe.run(feed=fed, fetch_list=fetch, return_numpy=False)
    return found
"""


def source(name):
    """The program of a case."""
    body, feed, _ = CASES[name]
    data = []
    for key, given in feed.items():
        rows, lengths = given if isinstance(given, tuple) else (given, [])
        shape = list(rows.shape)
        if lengths:
            shape[0] = None
        line = f"{key} = fluid.data('{key}', {shape}, '{rows.dtype}', {len(lengths)})"
        data.append("    " + line)
    lines = ["    " + line for line in body.strip("\n").split("\n")]
    return PROGRAM.format(
        start=START.tolist(), batch=BATCH.tolist(), data="\n".join(data),
        body="\n".join(lines),
    )  # fmt: skip
