package proa.inference;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A row-major array in memory outside the heap, which the library reads in place. */
public final class Tensor {
    /** Types of elements, in the order of proa_dtype. */
    public enum DataType {
        BOOL(1), UINT8(1), INT8(1), INT16(2), INT32(4), INT64(8), FLOAT16(2), BFLOAT16(2),
        FLOAT32(4), FLOAT64(8), COMPLEX64(8), COMPLEX128(16);

        final int bytes;

        DataType(int bytes) {
            this.bytes = bytes;
        }
    }

    final ByteBuffer data;
    final DataType type;
    final long[] shape;

    private Tensor(ByteBuffer data, DataType type, long[] shape) {
        this.data = data;
        this.type = type;
        this.shape = shape;
    }

    /** An array of zeros of this type and shape, to be filled through {@link #data()}. */
    public static Tensor zeros(DataType type, long... shape) {
        int size = Math.multiplyExact((int) count(shape), type.bytes);
        ByteBuffer data = ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
        return new Tensor(data, type, shape.clone());
    }

    public static Tensor of(float[] values, long... shape) {
        Tensor tensor = checked(zeros(DataType.FLOAT32, shape), values.length);
        tensor.data.asFloatBuffer().put(values);
        return tensor;
    }

    public static Tensor of(double[] values, long... shape) {
        Tensor tensor = checked(zeros(DataType.FLOAT64, shape), values.length);
        tensor.data.asDoubleBuffer().put(values);
        return tensor;
    }

    public static Tensor of(int[] values, long... shape) {
        Tensor tensor = checked(zeros(DataType.INT32, shape), values.length);
        tensor.data.asIntBuffer().put(values);
        return tensor;
    }

    public static Tensor of(long[] values, long... shape) {
        Tensor tensor = checked(zeros(DataType.INT64, shape), values.length);
        tensor.data.asLongBuffer().put(values);
        return tensor;
    }

    /** A copy of what the library computed. */
    static Tensor copyOf(ByteBuffer computed, int type, long[] shape) {
        Tensor tensor = zeros(DataType.values()[type], shape);
        if (computed != null) {
            tensor.data.duplicate().put(computed);
        }
        return tensor;
    }

    public DataType type() {
        return type;
    }

    public long[] shape() {
        return shape.clone();
    }

    /** The elements' bytes in the order of this machine. */
    public ByteBuffer data() {
        return data.duplicate().order(ByteOrder.nativeOrder());
    }

    public float[] floats() {
        require(DataType.FLOAT32);
        float[] values = new float[(int) count(shape)];
        data.asFloatBuffer().get(values);
        return values;
    }

    public double[] doubles() {
        require(DataType.FLOAT64);
        double[] values = new double[(int) count(shape)];
        data.asDoubleBuffer().get(values);
        return values;
    }

    public int[] ints() {
        require(DataType.INT32);
        int[] values = new int[(int) count(shape)];
        data.asIntBuffer().get(values);
        return values;
    }

    public long[] longs() {
        require(DataType.INT64);
        long[] values = new long[(int) count(shape)];
        data.asLongBuffer().get(values);
        return values;
    }

    private void require(DataType wanted) {
        if (type != wanted) {
            throw new IllegalStateException("expected elements of " + wanted + ", got " + type);
        }
    }

    private static Tensor checked(Tensor tensor, int length) {
        if (count(tensor.shape) != length) {
            throw new IllegalArgumentException(
                    "expected " + count(tensor.shape) + " values for the shape, got " + length);
        }
        return tensor;
    }

    private static long count(long[] shape) {
        long count = 1;
        for (long size : shape) {
            if (size < 0) {
                throw new IllegalArgumentException("expected sizes >= 0, got " + size);
            }
            count = Math.multiplyExact(count, size);
        }
        return count;
    }
}
