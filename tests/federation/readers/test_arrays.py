import numpy as np
import pytest
import torch

from unalike.errors import DataError
from unalike.federation.readers import from_arrays

X = np.arange(12.0).reshape(6, 2)
Y = [0, 1, 0, 1, 0, 1]


def test_a_table_of_numbers_keeps_its_values():
    examples = from_arrays(X, Y)
    assert examples.x.dtype == torch.float32
    assert examples.x.tolist() == X.tolist()
    assert examples.y.dtype == torch.int64
    assert (examples.classes, examples.kind, len(examples)) == (2, "binary", 6)
    assert examples.groups is None


@pytest.mark.parametrize("convert", [list, np.array, torch.tensor])
def test_lists_arrays_and_tensors_give_the_same(convert):
    examples = from_arrays(convert(X.tolist()), convert(Y))
    assert torch.equal(examples.x, from_arrays(X, Y).x)
    assert torch.equal(examples.y, from_arrays(X, Y).y)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.uint16, ">f8", bool])
def test_number_types_that_torch_lacks_are_read(dtype):
    assert from_arrays(X.astype(dtype), Y).x.tolist() == X.astype(dtype).astype(float).tolist()


def test_text_labels_are_numbered_in_sorted_order():
    examples = from_arrays(X, ["cat", "ant", "cat", "bee", "ant", "cat"])
    assert examples.class_names == ("ant", "bee", "cat")
    assert examples.y.tolist() == [2, 0, 2, 1, 0, 2]
    assert examples.kind == "multiclass"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([7, 3, 7, 3, 3, 3], ("3", "7")),
        ([7.0, 3.0, 7.0, 3.0, 3.0, 3.0], ("3", "7")),
        (np.array([7, 3, 7, 3, 3, 3], object), ("3", "7")),
        ([True, False, True, False, False, False], ("False", "True")),
        (np.array([b"y", b"x", b"y", b"x", b"x", b"x"]), ("x", "y")),
        ([[7], [3], [7], [3], [3], [3]], ("3", "7")),
    ],
)
def test_labels_of_other_types(labels, names):
    examples = from_arrays(X, labels)
    assert examples.class_names == names
    assert examples.y.tolist() == [1, 0, 1, 0, 0, 0]


def test_giving_the_number_of_classes_keeps_labels_that_do_not_occur():
    examples = from_arrays(X, [0, 4, 0, 4, 0, 4], classes=10)
    assert examples.classes == 10
    assert examples.y.tolist() == [0, 4, 0, 4, 0, 4]


def test_test_labels_follow_the_training_numbering():
    examples = from_arrays(X, list("bcbcbc"), test=(X[:2], ["c", "b"]))
    assert examples.test_y.tolist() == [1, 0]


def test_groups_are_numbered_in_sorted_order():
    examples = from_arrays(X, Y, [20, 3, 20, 3, 100, 3])
    assert examples.groups.tolist() == [1, 0, 1, 0, 2, 0]
    assert examples.group_names == ("3", "20", "100")


@pytest.mark.parametrize(
    ("shape", "layout", "result"),
    [
        ((6, 5, 4), "auto", (6, 1, 5, 4)),
        ((6, 5, 4, 3), "auto", (6, 3, 5, 4)),
        ((6, 3, 5, 7), "auto", (6, 3, 5, 7)),
        ((6, 3, 5, 3), "NHWC", (6, 3, 3, 5)),
        ((6, 3, 5, 3), "NCHW", (6, 3, 5, 3)),
    ],
)
def test_bytes_become_images_between_0_and_1(shape, layout, result):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    pixels.flat[:2] = 0, 255
    x = from_arrays(pixels, Y, layout=layout).x
    assert x.shape == result
    assert x.is_contiguous()
    assert (x.min(), x.max()) == (0, 1)


def test_channels_move_with_their_values():
    pixels = np.random.default_rng(0).random((6, 5, 4, 3), np.float32)
    x = from_arrays(pixels, Y).x
    assert np.array_equal(x.numpy()[:, 2], pixels[..., 2])


def test_float_sequences_and_byte_tables_are_not_taken_for_images():
    assert from_arrays(np.ones((6, 5, 4)), Y).x.shape == (6, 5, 4)
    assert from_arrays(np.full((6, 5), 200, np.uint8), Y).x.max() == 200


def test_large_finite_values_are_not_taken_for_infinite():
    assert from_arrays(np.full((6, 2), 3e38), Y).x.isfinite().all()


def bad(x=X, y=Y, groups=None, **options):
    return x, y, groups, options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (bad(y=Y[:5]), ["6", "5"]),
        (bad(groups=[1, 2]), ["6", "2", "groups"]),
        (bad(x=X[:0], y=[]), ["no rows"]),
        (bad(x=X[:, :0]), ["(6, 0)"]),
        (bad(x=X[:, 0]), ["reshape(-1, 1)"]),
        (bad(x=[[1, 2], [3]], y=[0, 1]), ["length"]),
        (bad(x=[["a"], ["b"]], y=[0, 1]), ["numbers", "from_frame"]),
        (bad(x=X.astype(complex)), ["numbers"]),
        (bad(x=np.where(X == 7, np.nan, X)), ["nan", "row 3", "column 1"]),
        (bad(x=np.where(X >= 6, np.inf, X)), ["inf", "row 3, column 0", "3 such rows"]),
        (bad(x=X * 1e300), ["inf"]),
        (bad(x=np.zeros((6, 8, 8, 8))), ["NCHW", "NHWC", "features"]),
        (bad(x=np.zeros((6, 3, 8, 3))), ["NCHW", "NHWC"]),
        (bad(layout="NHW"), ["NHW", "2 axes"]),
        (bad(y=[0, 1, np.nan, 1, 0, 1]), ["missing", "row 2"]),
        (bad(y=["a", None, "a", "b", "b", "a"]), ["missing", "row 1"]),
        (bad(y=np.array(["a", 1, "a", "b", "b", 2], object)), ["mix"]),
        (bad(y=[0, 1, -1, 1, 0, 1]), ["-1", "row 2"]),
        (bad(y=[0, 1, 0.5, 1, 0, 1]), ["0.5", "row 2"]),
        (bad(y=np.eye(6)), ["argmax"]),
        (bad(y=[[0], [1, 2], [0], [1], [0], [1]]), ["one value"]),
        (bad(y=np.array(["2020-01-01"] * 6, "M8[D]")), ["datetime64"]),
        (bad(y=[0, 1, 2, 1, 0, 1], classes=2), ["0 to 1", "got 2", "row 2"]),
        (bad(y=list("ababab"), classes=2), ["whole numbers"]),
        (bad(class_names=("a",)), ["1 class names", "2 classes"]),
        (bad(test=(X, ["0", "1", "2"] * 2)), ["'2'", "row 2"]),
        (bad(test=(X[:, :1], Y)), ["(2,)", "(1,)"]),
        (bad(test=(X, Y[:2])), ["6", "2"]),
        (bad(x=np.zeros((40, 1)), y=np.arange(40)), ["40", "measurements"]),
        (bad(groups=[1.5] * 6), ["1.5", "clients"]),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(given, words, one_sentence):
    x, y, groups, options = given
    with one_sentence(DataError, *words):
        from_arrays(x, y, groups, **options)
