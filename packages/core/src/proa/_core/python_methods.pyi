"""Methods of `Tensor` that are Python functions; see tools/tensor_stub.py."""

from collections.abc import Callable, Sequence
from numpy.typing import NDArray
from proa._core import Tensor
from proa.autograd.hooks import RemovableHook
from proa.base.device import Place
from proa.base.dtype import DTypeLike
from proa.base.typing import MaybeIndices, ScalarLike, TensorLike
from proa.tensor.arguments import AxisLike, IntsLike
from typing import Any, Literal, overload

class PythonMethods:
    def add_n(
        inputs,
        name: str | None = None,
    ) -> Tensor:
        """The sum of tensors of one shape; those that are None are passed over."""

    def addmm(
        input,
        x: Tensor,
        y: Tensor,
        beta: float = 1.0,
        alpha: float = 1.0,
        name: str | None = None,
    ) -> Tensor:
        """beta * input + alpha * (x @ y)."""

    def all(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Whether all are non-zero."""

    def allclose(
        x,
        y: Tensor,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Whether all elements are close, a 0-d bool."""

    def amax(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Greatest element; equal ones share the gradient."""

    def amin(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Least element; equal ones share the gradient."""

    def angle(
        x,
        name: str | None = None,
    ) -> Tensor:
        """The argument of complex numbers; of real ones 0 or pi."""

    def any(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Whether any is non-zero."""

    def apply(
        self,
        func: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ...

    def argmax(
        x,
        axis: int | None = None,
        keepdim: bool = False,
        dtype: DTypeLike = 'int64',
        name: str | None = None,
    ) -> Tensor:
        """Index of the greatest element (the first of equals); in the flat x if no axis."""

    def argmin(
        x,
        axis: int | None = None,
        keepdim: bool = False,
        dtype: DTypeLike = 'int64',
        name: str | None = None,
    ) -> Tensor:
        """Index of the least element (the first of equals); in the flat x if no axis."""

    def argsort(
        x,
        axis: int = -1,
        descending: bool = False,
        name: str | None = None,
        *,
        stable: bool = True,
    ) -> Tensor:
        """Where the elements of `sort` were; equal ones keep theirs, stable or not."""

    def as_complex(
        x,
        name: str | None = None,
    ) -> Tensor:
        """x[..., 0] + i x[..., 1]: real (.., 2) -> complex (..)."""

    def as_real(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Real and imaginary parts along a new last axis: complex (..) -> real (.., 2)."""

    def astype(
        self,
        dtype: DTypeLike,
    ) -> Tensor:
        ...

    def bernoulli(
        x,
        name: str | None = None,
    ) -> Tensor:
        """1 with probability x, else 0."""

    def bincount(
        x,
        weights: Tensor | None = None,
        minlength: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """How often each number 0, 1, … occurs, or the sum of its weights.

        Args:
            x: Integers >= 0, (n,).
            weights: (n,); None counts.
            minlength: Least length of the result.

        Returns:
            (max(x) + 1,) or longer; int64, or the dtype of the weights.

        Raises:
            InvalidArgumentError: If x is no vector of integers >= 0.
        """

    def bmm(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Batched product of (b, n, k) and (b, k, m)."""

    def broadcast_shape(
        x_shape,
        y_shape: Sequence[int],
    ) -> list[int]:
        """The shape that two shapes broadcast to."""

    def broadcast_tensors(
        input,
        name: str | None = None,
    ) -> list[Tensor]:
        """All tensors broadcast to their common shape."""

    def broadcast_to(
        x,
        shape: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """x repeated without copying to ``shape``; -1 keeps a dimension."""

    def bucketize(
        x,
        sorted_sequence: Tensor,
        out_int32: bool = False,
        right: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """`searchsorted` with one sequence for all of x."""

    def cast(
        x,
        dtype: DTypeLike,
    ) -> Tensor:
        """x in another element type."""

    def cholesky(
        x,
        upper: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The triangular factor of Hermitian positive definite matrices.

        x = L L^H with L lower triangular, or x = U^H U with U upper triangular.

        Args:
            x: (.., n, n). Only its lower (upper) triangle is read.
            upper: Whether U is wanted.

        Raises:
            InvalidArgumentError: If a matrix is not positive definite.
        """

    def cholesky_solve(
        x,
        y: Tensor,
        upper: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The z with A z = x, where y is the Cholesky factor of A.

        Args:
            x: The right-hand side, (.., n, k).
            y: L with A = L L^H, or U with A = U^H U if upper, (.., n, n).
            upper: Whether y is U.
        """

    def chunk(
        x,
        chunks: int,
        axis: int | Tensor = 0,
        name: str | None = None,
    ) -> list[Tensor]:
        """`split` into equal parts."""

    def clip(
        x,
        min: ScalarLike | None = None,
        max: ScalarLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """x limited to [min, max]; a bound that is None does not limit."""

    def clip_(
        x,
        min: ScalarLike | None = None,
        max: ScalarLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """x limited to [min, max] in place."""

    def concat(
        x,
        axis: int | Tensor = 0,
        name: str | None = None,
    ) -> Tensor:
        """Tensors joined along an axis; `LoDTensor`s keep their lengths on axis 0.

        0-d tensors count as having one axis, of one number: Paddle 2.1 has such in places
        where they are 0-d here.
        """

    def cond(
        x,
        p: float | str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Condition numbers norm(x) * norm(x^-1) of matrices: (.., m, n) -> (..).

        Args:
            x: (.., m, n); square unless p is None, 2 or -2.
            p: None or 2: greatest over least singular value, -2 the inverse of that; 1, -1:
                greatest, least sum of a column; inf, -inf: of a row; "fro"; "nuc".

        Raises:
            InvalidArgumentError: If a matrix is singular (but for p None, 2, -2).
        """

    def contiguous(
        self,
    ) -> Tensor:
        """A copy whose elements are in row-major order, whatever order theirs is."""

    def copy_(
        self,
        other: TensorLike,
        *args: object,
    ) -> Tensor:
        ...

    def corrcoef(
        x,
        rowvar: bool = True,
        name: str | None = None,
    ) -> Tensor:
        """Correlations of variables, the covariances over their standard deviations."""

    def count_nonzero(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Number of non-zero elements."""

    def cov(
        x,
        rowvar: bool = True,
        ddof: bool = True,
        fweights: Tensor | None = None,
        aweights: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Covariances of variables, weighted as `numpy.cov` does.

        Args:
            x: (variables, observations), the other way round if not rowvar; or one vector.
            rowvar: Whether each row is a variable.
            ddof: Whether the sum is divided by one less than the weight of all.
            fweights: Whole numbers, how often each observation counts.
            aweights: Weights of the observations.
        """

    def cpu(
        self,
        *args: object,
        **kwargs: object,
    ) -> Tensor:
        ...

    def crop(
        x,
        shape: IntsLike | None = None,
        offsets: IntsLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The block of ``shape`` that starts at ``offsets``; -1 takes all that is left."""

    def cross(
        x,
        y: Tensor,
        axis: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Cross product along an axis of size 3 (by default the first such)."""

    def cuda(
        self,
        *args: object,
        **kwargs: object,
    ) -> Tensor:
        ...

    def cummax(
        x,
        axis: int | None = None,
        dtype: DTypeLike = 'int64',
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The greatest element so far along an axis, and its place (the last of equals)."""

    def cummin(
        x,
        axis: int | None = None,
        dtype: DTypeLike = 'int64',
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The least element so far along an axis, and its place (the last of equals)."""

    def cumprod(
        x,
        dim: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Running product along an axis, or over all elements if dim is None."""

    def cumsum(
        x,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Running sum along an axis, or over all elements if axis is None."""

    def deg2rad(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Degrees to radians."""

    def det(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Determinants: (.., n, n) -> (..)."""

    def diag(
        x,
        offset: int = 0,
        padding_value: float = 0,
        name: str | None = None,
    ) -> Tensor:
        """The matrix that has a vector on a diagonal, or the diagonal of a matrix."""

    def diag_embed(
        input,
        offset: int = 0,
        dim1: int = -2,
        dim2: int = -1,
        name: str | None = None,
    ) -> Tensor:
        """Matrices with the last axis of ``input`` on a diagonal, zeros elsewhere."""

    def diagflat(
        x,
        offset: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """The matrix with the elements of x, flattened, on a diagonal."""

    def diagonal(
        x,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        name: str | None = None,
    ) -> Tensor:
        """A diagonal of the planes of two axes, as a last axis; a view."""

    def diff(
        x,
        n: int = 1,
        axis: int = -1,
        prepend: Tensor | None = None,
        append: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Differences of neighbours along an axis, n times; none are left of n elements."""

    def dim(
        self,
    ) -> int:
        ...

    def dist(
        x,
        y: Tensor,
        p: float = 2,
        name: str | None = None,
    ) -> Tensor:
        """The p-norm of x - y."""

    def dot(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Inner product over the last axis of vectors or batches of vectors."""

    def eig(
        x,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors of any square matrices, always complex.

        Args:
            x: (.., n, n).

        Returns:
            Values (.., n), in no order, and vectors (.., n, n) as columns of length 1.
        """

    def eigh(
        x,
        UPLO: str = 'L',
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices.

        Args:
            x: (.., n, n).
            UPLO: The triangle that is read, "L" or "U".

        Returns:
            Real values (.., n) and vectors (.., n, n) as columns.
        """

    def eigvals(
        x,
        name: str | None = None,
    ) -> Tensor:
        """The eigenvalues that `eig` gives."""

    def eigvalsh(
        x,
        UPLO: str = 'L',
        name: str | None = None,
    ) -> Tensor:
        """The eigenvalues that `eigh` gives."""

    def element_size(
        self,
    ) -> int:
        ...

    def empty_like(
        x,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The shape (and dtype) of x with values that mean nothing."""

    def equal_all(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Whether shapes and all elements agree, a 0-d bool."""

    def expand(
        self,
        shape: IntsLike,
        *more: int,
        name: str | None = None,
    ) -> Tensor:
        """`expand` to a list of sizes, or to sizes given one by one."""

    def expand_as(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """x repeated without copying to the shape of y."""

    def fill_(
        x,
        value: ScalarLike,
    ) -> Tensor:
        """Every element becomes value."""

    def flatten(
        x,
        start_axis: int = 0,
        stop_axis: int = -1,
        name: str | None = None,
    ) -> Tensor:
        """The axes start to stop (included) merged into one."""

    def flatten_(
        x,
        start_axis: int = 0,
        stop_axis: int = -1,
        name: str | None = None,
    ) -> Tensor:
        """x with the axes start to stop merged, on the same memory."""

    def flip(
        x,
        axis: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """The order along the axes reversed."""

    def fmax(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """The greater of x and y; the other where one is NaN."""

    def fmin(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """The lesser of x and y; the other where one is NaN."""

    def frac(
        x,
        name: str | None = None,
    ) -> Tensor:
        """x minus its integer part.

        Raises:
            InvalidTypeError: If x is bool or complex.
        """

    def full_like(
        x,
        fill_value: ScalarLike,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The shape (and dtype) of x filled with one value."""

    def gather(
        x,
        index: Tensor,
        axis: int | Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Entries of x along an axis (0) at a vector of indices."""

    def gather_nd(
        x,
        index: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """x at the coordinates in the last axis of index."""

    def get_tensor(
        self,
    ) -> Tensor:
        ...

    def gradient(
        self,
    ) -> NDArray[Any] | None:
        ...

    def heaviside(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """0 where x < 0, y where x == 0, 1 where x > 0."""

    def histogram(
        input,
        bins: int = 100,
        min: float = 0,
        max: float = 0,
        name: str | None = None,
    ) -> Tensor:
        """How many elements are in each of ``bins`` equal parts of [min, max].

        Args:
            input: Real numbers of any shape.
            bins: Number of parts, positive.
            min, max: The range, max included; if both are equal, that of the elements.
                Elements outside are not counted.

        Returns:
            int64 of shape (bins,).

        Raises:
            InvalidArgumentError: If bins is not positive or max is less than min.
        """

    def householder_product(
        x,
        tau: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """The first n columns of H1 H2 .. Hk with Hi = 1 - tau[i] v v^H.

        Args:
            x: (.., m, n), m >= n. Column i holds v below its diagonal, where v is 1.
            tau: (.., k), k <= n.
        """

    def increment(
        x,
        value: float = 1.0,
        name: str | None = None,
    ) -> Tensor:
        """Add ``value`` to x in place, without its fraction if x has integers."""

    def index_add(
        x,
        index: Tensor,
        axis: int,
        value: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """x with the entries of value added along axis at a vector of indices."""

    def index_sample(
        x,
        index: Tensor,
    ) -> Tensor:
        """In each row of x (n, m) the elements that the row of index (n, k) names."""

    def index_select(
        x,
        index: Tensor,
        axis: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Entries of x along an axis at a vector of indices."""

    def inner(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Sum of products over the last axes of x and y."""

    def inv(
        x,
        name: str | None = None,
    ) -> Tensor:
        """The inverse of (.., n, n).

        Raises:
            InvalidArgumentError: If a matrix is singular.
        """

    def inverse(
        x,
        name: str | None = None,
    ) -> Tensor:
        """The inverse of (.., n, n).

        Raises:
            InvalidArgumentError: If a matrix is singular.
        """

    def is_complex(
        x,
    ) -> bool:
        """Whether x holds complex numbers."""

    def is_empty(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Whether x has no element, a 0-d bool."""

    def is_floating_point(
        x,
    ) -> bool:
        """Whether x holds real floating numbers."""

    def is_integer(
        x,
    ) -> bool:
        """Whether x holds integers."""

    def is_same_shape(
        self,
        y: Tensor,
    ) -> bool:
        ...

    def is_tensor(
        x,
    ) -> bool:
        """Whether x is a Tensor."""

    def isclose(
        x,
        y: Tensor,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Where |x - y| <= atol + rtol * |y|."""

    def kron(
        x,
        y: Tensor,
        name: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Kronecker product, written into ``out`` if given."""

    def kthvalue(
        x,
        k: int,
        axis: int | None = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The k-th least element along an axis, and where it was; k counts from 1."""

    def lerp(
        x,
        y: Tensor,
        weight: float | Tensor,
        name: str | None = None,
    ) -> Tensor:
        """x + weight * (y - x)."""

    def logaddexp(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """log(exp(x) + exp(y)) without overflow."""

    def logcumsumexp(
        x,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """log of the running sum of exp(x) along an axis, or over all elements in a row.

        Args:
            x: Real numbers.
            axis: The axis; None flattens x.
            dtype: Floating dtype to compute in; by default that of x.
        """

    def logical_and(
        x,
        y: Tensor,
        out: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """True where both are non-zero."""

    def logical_not(
        x,
        out: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """True where x is zero or False."""

    def logical_or(
        x,
        y: Tensor,
        out: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """True where either is non-zero."""

    def logical_xor(
        x,
        y: Tensor,
        out: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """True where exactly one is non-zero."""

    def logit(
        x,
        eps: float | None = None,
        name: str | None = None,
    ) -> Tensor:
        """log(x / (1 - x)), x first limited to [eps, 1 - eps] if eps is given."""

    def logsumexp(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """log(sum(exp(x))), safe from overflow."""

    def lstsq(
        x,
        y: Tensor,
        rcond: float | None = None,
        driver: str | None = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The z that makes the norm of x z - y least, and of those the shortest.

        Args:
            x: (.., m, n).
            y: (.., m, k).
            rcond: Singular values of at most this share of the greatest count as 0; by
                default max(m, n) times the rounding error of the dtype.
            driver: "gels" solves by QR and needs full rank; "gelsy" (the default),
                "gelsd" and "gelss" all solve by singular values.

        Returns:
            z (.., n, k); the sums of squares of what is left (.., k), empty unless m > n
            and x has full rank; the rank (..), int32; the singular values (.., min(m, n)),
            empty for "gels" and "gelsy".
        """

    def lu(
        x,
        pivot: bool = True,
        get_infos: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, ...]:
        """P L U factors with row exchanges.

        Args:
            x: (.., m, n).
            pivot: Must be True: rows are exchanged.
            get_infos: Whether ``info`` is returned too.

        Returns:
            L (below the diagonal, which is 1) and U in one (.., m, n); pivots int32
            (.., min(m, n)): row i was exchanged with row pivots[i], counted from 1; and
            info int32 (..): 0, or the number of the first pivot that is 0.
        """

    def lu_unpack(
        x,
        y: Tensor,
        unpack_ludata: bool = True,
        unpack_pivots: bool = True,
        name: str | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """P, L and U of what `lu` gave; None for those not requested.

        Args:
            x: The factors, (.., m, n).
            y: The pivots, (.., min(m, n)).
            unpack_ludata: Whether L (.., m, k) and U (.., k, n) are wanted, k = min(m, n).
            unpack_pivots: Whether P (.., m, m) is wanted.
        """

    def masked_fill(
        x,
        mask: Tensor,
        value: ScalarLike,
        name: str | None = None,
    ) -> Tensor:
        """x with value where mask holds."""

    def masked_select(
        x,
        mask: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """The elements of x where mask holds, in row-major order."""

    def matmul(
        x,
        y: Tensor,
        transpose_x: bool = False,
        transpose_y: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Matrix product over the last two axes, the axes before broadcast.

        A vector is a row on the left and a column on the right; its axis is then removed.
        """

    def matrix_power(
        x,
        n: int,
        name: str | None = None,
    ) -> Tensor:
        """x multiplied n times; of the inverse if n is negative; (.., k, k)."""

    def matrix_rank(
        x,
        tol: float | Tensor | None = None,
        hermitian: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """How many singular values exceed ``tol``: int64, (.., m, n) -> (..).

        Args:
            x: (.., m, n).
            tol: A number, or a tensor that broadcasts to (..); by default the greatest
                singular value times max(m, n) times the rounding error of the dtype.
            hermitian: Whether x is Hermitian; eigenvalues are cheaper.
        """

    def max(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Greatest element; equal ones share the gradient."""

    def mean(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Arithmetic mean; dtype is what is summed in and returned."""

    @overload
    def median(x, axis: int | None=..., keepdim: bool=..., name: str | None=..., *, mode: Literal['avg']=...) -> Tensor:
        """The middle element. Of two middle ones the mean, or by mode "min" the lesser,
        which comes with its index where an axis is given.
        """

    @overload
    def median(x, axis: None=..., keepdim: bool=..., name: str | None=..., *, mode: str) -> Tensor:
        ...

    @overload
    def median(x, axis: int, keepdim: bool=..., name: str | None=..., *, mode: Literal['min']) -> tuple[Tensor, Tensor]:
        ...

    @overload
    def median(x, axis: int | None=..., keepdim: bool=..., name: str | None=..., *, mode: str) -> MaybeIndices:
        ...

    def min(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Least element; equal ones share the gradient."""

    def mm(
        input,
        mat2: Tensor,
        name: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Matrix product without transposition, written into ``out`` if given."""

    def mode(
        x,
        axis: int = -1,
        keepdim: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The most frequent element along an axis (the least of equals), and its last
        place. The gradient goes to that place.
        """

    def moveaxis(
        x,
        source: int | Sequence[int],
        destination: int | Sequence[int],
        name: str | None = None,
    ) -> Tensor:
        """Axes moved to new places; the others keep their order."""

    def multi_dot(
        x,
        name: str | None = None,
    ) -> Tensor:
        """The product of a chain of matrices in the cheapest order.

        Args:
            x: Two or more tensors of rank 2; the first and last may be vectors.
        """

    def multinomial(
        x,
        num_samples: int = 1,
        replacement: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Indices drawn by the (unnormalised) probabilities in the last axis of x.

        Without replacement by the Gumbel top-k trick: the k greatest of log p + noise.
        """

    def multiplex(
        inputs,
        index: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Row i of the tensor that index[i] names, for every i.

        Args:
            inputs: Tensors of one shape (n, ..).
            index: int32 or int64, (n,) or (n, 1).

        Returns:
            The shape and dtype of the inputs.
        """

    def mv(
        x,
        vec: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Matrix times vector."""

    def nanmean(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Mean of the elements that are not NaN."""

    def nanmedian(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The median of the elements that are not NaN; NaN if there is none."""

    def nanquantile(
        x,
        q: float | Sequence[float] | Tensor,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """`quantile` of the elements that are not NaN; NaN if there is none."""

    def nansum(
        x,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Sum with NaN counted as 0."""

    def ndimension(
        self,
    ) -> int:
        ...

    @overload
    def nonzero(x, as_tuple: Literal[False]=False) -> Tensor:
        """Coordinates of non-zero elements, (count, rank), or (count, 1) by axis.

        In a static program the count is a symbolic dimension.
        """

    @overload
    def nonzero(x, as_tuple: bool) -> Tensor | tuple[Tensor, ...]:
        ...

    def norm(
        x,
        p: float | str = 'fro',
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The p-norm (sum of abs(x) ** p) ** (1 / p) over axes.

        It differs from `numpy.linalg.norm`: over two axes a number p gives this same sum
        over both, not the operator norm of the matrices (with inf the greatest modulus, not
        the greatest sum of a row), "fro" is admitted over any axes (the 2-norm), and
        without axes all elements count for every p. "nuc", the sum of singular values, is
        as in NumPy.

        Args:
            x: Any shape.
            p: A number, inf, -inf, 0 (counts), "fro", or "nuc" over two axes.
            axis: An axis or several; None takes all elements.
            keepdim: Whether the axes stay with size 1.

        Raises:
            InvalidArgumentError: If p is unknown or "nuc" has not two axes.
        """

    def normal_(
        x,
        mean: float = 0.0,
        std: float = 1.0,
    ) -> Tensor:
        """Every element becomes normally distributed."""

    def numel(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Number of elements, as a 0-d int64 tensor."""

    def ones_like(
        x,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The shape (and dtype) of x filled with 1."""

    def outer(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """Every product of an element of x with one of y, (n, m)."""

    def pca_lowrank(
        x,
        q: int | None = None,
        center: bool = True,
        niter: int = 2,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The q greatest singular values of x with its column means taken off.

        Computed from the whole decomposition, so it is exact and needs no iteration.

        Args:
            x: (.., m, n).
            q: How many; by default min(6, m, n).
            center: Whether the means are taken off.
            niter: Accepted; nothing is iterated.

        Returns:
            U (.., m, q), S (.., q), V (.., n, q).
        """

    def pin_memory(
        self,
        *args: object,
        **kwargs: object,
    ) -> Tensor:
        ...

    def pinv(
        x,
        rcond: float | Tensor = 1e-15,
        hermitian: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The Moore-Penrose inverse: (.., m, n) -> (.., n, m).

        Args:
            x: (.., m, n).
            rcond: Singular values of at most this share of the greatest count as 0; a
                number or a tensor that broadcasts to (..).
            hermitian: Whether x is Hermitian; eigenvalues are cheaper.
        """

    def polar(
        abs,
        angle: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """The complex numbers of these moduli and angles, abs * exp(i angle)."""

    def prod(
        x,
        axis: AxisLike = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Product of elements; integers multiply in int64."""

    def put_along_axis(
        arr,
        indices: Tensor,
        values: ScalarLike,
        axis: int,
        reduce: str = 'assign',
        include_self: bool = True,
        broadcast: bool = True,
    ) -> Tensor:
        """arr with values written, added or multiplied in at indices along axis.

        Args:
            arr: What is changed in a copy.
            indices: Where, of the rank of `arr`; negative ones count from the end.
            values: What, broadcast to the shape of `indices`.
            axis: Along which axis.
            reduce: "assign", "add", or "mul" ("multiply").
            include_self: False leaves the old values out of sums and products.
            broadcast: Whether `indices` is stretched to `arr` along the other axes.
        """

    def put_along_axis_(
        arr,
        indices: Tensor,
        values: ScalarLike,
        axis: int,
        reduce: str = 'assign',
    ) -> Tensor:
        """`put_along_axis` in place."""

    @overload
    def qr(x, mode: Literal['reduced', 'complete']=..., name: str | None=...) -> tuple[Tensor, Tensor]:
        """x = Q R with orthonormal columns in Q and R upper triangular.

        Args:
            x: (.., m, n); k = min(m, n).
            mode: "reduced": Q (.., m, k), R (.., k, n); "complete": Q (.., m, m),
                R (.., m, n), without a gradient; "r": R of "reduced" alone.
        """

    @overload
    def qr(x, mode: Literal['r'], name: str | None=...) -> Tensor:
        ...

    @overload
    def qr(x, mode: str, name: str | None=...) -> Tensor | tuple[Tensor, Tensor]:
        ...

    def quantile(
        x,
        q: float | Sequence[float] | Tensor,
        axis: AxisLike = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The q-quantile of the elements, interpolated between neighbours.

        Args:
            x: Real numbers; a line with a NaN gives NaN.
            q: A number in [0, 1], or several, which make a first axis of the result.
            axis: An axis or several; None takes all elements.
            keepdim: Whether the axes stay with size 1.
        """

    def rad2deg(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Radians to degrees."""

    def randint_like(
        x,
        low: int = 0,
        high: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Uniform integers in the shape (and dtype) of x."""

    def rank(
        self,
    ) -> Tensor:
        ...

    def register_hook(
        self,
        hook: Callable[[Tensor], Tensor | None],
    ) -> RemovableHook:
        """Call `hook` with the tensor's gradient; what it returns, if anything, replaces
        it.
        """

    def repeat_interleave(
        x,
        repeats: int | Tensor,
        axis: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Each entry along an axis repeated in place."""

    def reshape(
        x,
        shape: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """The same elements in another shape. One -1 is inferred; 0 keeps a size."""

    def reshape_(
        x,
        shape: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """x under another shape, on the same memory."""

    def reverse(
        x,
        axis: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """The order along the axes reversed."""

    def roll(
        x,
        shifts: IntsLike,
        axis: AxisLike = None,
        name: str | None = None,
    ) -> Tensor:
        """Elements moved cyclically along axes, or over all elements if axis is None."""

    def rot90(
        x,
        k: int = 1,
        axes: Sequence[int] = (0, 1),
        name: str | None = None,
    ) -> Tensor:
        """Rotate the plane of two axes k times by 90 degrees, first towards second."""

    def scale(
        x,
        scale: float | Tensor = 1.0,
        bias: float = 0.0,
        bias_after_scale: bool = True,
        act: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """scale * x + bias, or scale * (x + bias)."""

    def scale_(
        x,
        scale: float = 1.0,
        bias: float = 0.0,
        bias_after_scale: bool = True,
        act: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """x = scale * x + bias, or scale * (x + bias)."""

    def scatter(
        x,
        index: Tensor,
        updates: Tensor,
        overwrite: bool = True,
        name: str | None = None,
    ) -> Tensor:
        """x with rows replaced by updates, or (not overwrite) set to the sum of updates."""

    def scatter_(
        x,
        index: Tensor,
        updates: Tensor,
        overwrite: bool = True,
        name: str | None = None,
    ) -> Tensor:
        """`scatter` in place."""

    def scatter_nd(
        index,
        updates: Tensor,
        shape: Sequence[int],
        name: str | None = None,
    ) -> Tensor:
        """Zeros of ``shape`` with updates added at the coordinates in index."""

    def scatter_nd_add(
        x,
        index: Tensor,
        updates: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """x with updates added at the coordinates in the last axis of index."""

    def searchsorted(
        sorted_sequence,
        values: Tensor,
        out_int32: bool = False,
        right: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Where values would be put into a sorted last axis; by comparison with every
        entry.
        """

    def set_value(
        self,
        value: TensorLike,
    ) -> Tensor:
        """Copy ``value``, of the same shape, into this tensor's memory; no gradient."""

    def sgn(
        x,
        name: str | None = None,
    ) -> Tensor:
        """x / abs(x), 0 where x is 0; of real numbers the sign."""

    def shard_index(
        input,
        index_num: int,
        nshards: int,
        shard_id: int,
        ignore_value: int = -1,
        name: str | None = None,
    ) -> Tensor:
        """Indices relative to the shard that holds them; elsewhere ``ignore_value``.

        Shard s holds ceil(index_num / nshards) indices from s times as many on.

        Args:
            input: Integers in [0, index_num).
            index_num: How many indices there are.
            nshards: How many shards.
            shard_id: Which one this is.
            ignore_value: Replaces indices of other shards.
        """

    def slice(
        input,
        axes: IntsLike,
        starts: IntsLike,
        ends: IntsLike,
    ) -> Tensor:
        """input[start:end] along each of the axes; a view."""

    def slogdet(
        x,
        name: str | None = None,
    ) -> Tensor:
        """Sign and logarithm of the modulus of determinants: (.., n, n) -> (2, ..)."""

    def solve(
        x,
        y: Tensor,
        name: str | None = None,
    ) -> Tensor:
        """The z with x z = y.

        Args:
            x: (.., n, n).
            y: (.., n, k) or (n,); batches broadcast.

        Raises:
            InvalidArgumentError: If a matrix is singular.
            ShapeError: If the shapes do not fit.
        """

    def sort(
        x,
        axis: int = -1,
        descending: bool = False,
        name: str | None = None,
        *,
        stable: bool = True,
    ) -> Tensor:
        """Elements in order along an axis; equal ones keep their order, stable or not."""

    def split(
        x,
        num_or_sections: int | Sequence[int],
        axis: int | Tensor = 0,
        name: str | None = None,
    ) -> list[Tensor]:
        """Views of x cut along an axis into equal parts or parts of given sizes."""

    def squeeze(
        x,
        axis: AxisLike = None,
        name: str | None = None,
    ) -> Tensor:
        """Axes of size 1 removed: all, or those named that have size 1."""

    def squeeze_(
        x,
        axis: AxisLike = None,
        name: str | None = None,
    ) -> Tensor:
        """x without axes of size 1, on the same memory."""

    def stack(
        x,
        axis: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Tensors of one shape joined along a new axis."""

    def stanh(
        x,
        scale_a: float = 0.67,
        scale_b: float = 1.7159,
        name: str | None = None,
    ) -> Tensor:
        """scale_b * tanh(scale_a * x)."""

    def std(
        x,
        axis: AxisLike = None,
        unbiased: bool = True,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Standard deviation; unbiased divides by n - 1."""

    def strided_slice(
        x,
        axes: IntsLike,
        starts: IntsLike,
        ends: IntsLike,
        strides: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """x[start:end:stride] along each of the axes; a view."""

    def sum(
        x,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Sum of elements; bool and integers add up in int64."""

    def svd(
        x,
        full_matrices: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Singular values: x = U diag(S) VH.

        Args:
            x: (.., m, n); k = min(m, n).
            full_matrices: Whether U is (.., m, m) and VH (.., n, n), without a gradient.

        Returns:
            U (.., m, k), S (.., k), real and descending, VH (.., k, n).
        """

    def swapaxes(
        x,
        axis0: int,
        axis1: int,
        name: str | None = None,
    ) -> Tensor:
        """Two axes exchanged."""

    def t(
        input,
        name: str | None = None,
    ) -> Tensor:
        """The transpose of a matrix; vectors and scalars as they are."""

    def take_along_axis(
        arr,
        indices: Tensor,
        axis: int,
        broadcast: bool = True,
    ) -> Tensor:
        """y[i, j, ..] = arr[i, indices[i, j, ..], ..] along axis."""

    def tensordot(
        x,
        y: Tensor,
        axes: int | Tensor | Sequence[int | Sequence[int]] = 2,
        name: str | None = None,
    ) -> Tensor:
        """Sum of products over axes of x and y.

        Args:
            x, y: Any shapes.
            axes: n: the last n axes of x and the first n of y; or two lists of axes; or one
                list for both.

        Returns:
            The other axes of x, then those of y.
        """

    def tile(
        x,
        repeat_times: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """x repeated along each axis, aligned at the last."""

    def to(
        self,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        """Convert: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``."""

    def to_device(
        self,
        device: Place,
        /,
        *,
        stream: None = None,
    ) -> Tensor:
        """This tensor, which is on the one device, the CPU."""

    def topk(
        x,
        k: int | Tensor,
        axis: int | None = None,
        largest: bool = True,
        sorted: bool = True,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The k greatest (or least) elements in order, and where they were."""

    def trace(
        x,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        name: str | None = None,
    ) -> Tensor:
        """Sum of a diagonal."""

    def transpose(
        x,
        perm: Sequence[int],
        name: str | None = None,
    ) -> Tensor:
        """Axis i of the result is axis perm[i] of x."""

    def triangular_solve(
        x,
        y: Tensor,
        upper: bool = True,
        transpose: bool = False,
        unitriangular: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """The z with x z = y (or x^T z = y) for a triangular x.

        Args:
            x: (.., n, n); the other triangle is not read.
            y: (.., n, k) or (n,).
            upper: Whether the upper triangle counts.
            transpose: Whether x is transposed first.
            unitriangular: Whether the diagonal counts as ones.
        """

    def tril(
        x,
        diagonal: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """The part on and below the diagonal; zeros elsewhere."""

    def triu(
        x,
        diagonal: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """The part on and above the diagonal; zeros elsewhere."""

    def unbind(
        input,
        axis: int = 0,
    ) -> list[Tensor]:
        """Views of the entries along an axis, which is removed."""

    def uniform_(
        x,
        min: float = -1.0,
        max: float = 1.0,
        seed: int = 0,
    ) -> Tensor:
        """Every element becomes uniform in [min, max)."""

    @overload
    def unique(x, return_index: Literal[False]=..., return_inverse: Literal[False]=..., return_counts: Literal[False]=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> Tensor:
        """The different elements (or entries along axis) in order.

        Args:
            x: Any shape; compared as a flat list if axis is None.
            return_index: Also where each first occurs.
            return_inverse: Also for each element its number in the result.
            return_counts: Also how often each occurs.
            axis: Axis along which whole entries are compared.
            dtype: int32 or int64, of the three further results.

        Returns:
            The different elements, through which gradients flow to their first
            occurrences; a tuple with the further results if any is requested. In a static
            program their number is a symbolic dimension.
        """

    @overload
    def unique(x, return_index: Literal[True]=..., return_inverse: bool=..., return_counts: bool=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> tuple[Tensor, ...]:
        ...

    @overload
    def unique(x, return_index: bool=..., return_inverse: Literal[True]=..., return_counts: bool=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> tuple[Tensor, ...]:
        ...

    @overload
    def unique(x, return_index: bool=..., return_inverse: bool=..., return_counts: Literal[True]=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> tuple[Tensor, ...]:
        ...

    @overload
    def unique(x, return_index: bool=..., return_inverse: bool=..., return_counts: bool=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> Tensor | tuple[Tensor, ...]:
        ...

    @overload
    def unique_consecutive(x, return_inverse: Literal[False]=..., return_counts: Literal[False]=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> Tensor:
        """x without the repetitions of a neighbour; arguments as those of `unique`."""

    @overload
    def unique_consecutive(x, return_inverse: Literal[True]=..., return_counts: bool=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> tuple[Tensor, ...]:
        ...

    @overload
    def unique_consecutive(x, return_inverse: bool=..., return_counts: Literal[True]=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> tuple[Tensor, ...]:
        ...

    @overload
    def unique_consecutive(x, return_inverse: bool=..., return_counts: bool=..., axis: int | None=..., dtype: DTypeLike=..., name: str | None=...) -> Tensor | tuple[Tensor, ...]:
        ...

    def unsqueeze(
        x,
        axis: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """Axes of size 1 put in one after another at the given places."""

    def unsqueeze_(
        x,
        axis: IntsLike,
        name: str | None = None,
    ) -> Tensor:
        """x with axes of size 1 put in, on the same memory."""

    def unstack(
        x,
        axis: int = 0,
        num: int | None = None,
    ) -> list[Tensor]:
        """`unbind`, with a check of the number of entries."""

    def value(
        self,
    ) -> Tensor:
        ...

    def var(
        x,
        axis: AxisLike = None,
        unbiased: bool = True,
        keepdim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Variance; unbiased divides by n - 1."""

    def view(
        x,
        shape_or_dtype: IntsLike | DTypeLike,
        name: str | None = None,
    ) -> Tensor:
        """x under another shape, on the same memory."""

    def where(
        self,
        x: ScalarLike | None = None,
        y: ScalarLike | None = None,
        name: str | None = None,
        *,
        condition: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """`where` with this tensor as the condition, or as x if a condition is named."""

    def zero_(
        x,
    ) -> Tensor:
        """Every element becomes 0."""

    def zeros_like(
        x,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The shape (and dtype) of x filled with 0."""
