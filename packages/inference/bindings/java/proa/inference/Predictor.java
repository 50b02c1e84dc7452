package proa.inference;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A loaded model. One thread at a time runs it; {@link #copy} makes another on the same weights.
 *
 * <p>The library proa_inference_jni, which links to libproa_inference, is found by
 * java.library.path.
 */
public final class Predictor implements AutoCloseable {
    static {
        System.loadLibrary("proa_inference_jni");
    }

    private long handle;

    /**
     * Loads a model file.
     *
     * @param threads 1 for the calling thread, n for a pool of n, 0 for the pool of the process
     */
    public Predictor(String path, int threads) {
        this(create(path, null, threads, null));
    }

    /**
     * Loads the bytes of a model, or one that is encrypted.
     *
     * @param path of a file, or null
     * @param bytes of a model, if there is no path
     * @param key 32 bytes, or null
     */
    public Predictor(String path, byte[] bytes, int threads, byte[] key) {
        this(create(path, bytes, threads, key));
    }

    private Predictor(long handle) {
        this.handle = handle;
    }

    /** A predictor for another thread. */
    public synchronized Predictor copy() {
        return new Predictor(cloneOf(opened()));
    }

    public synchronized String[] inputNames() {
        return names(opened(), true);
    }

    public synchronized String[] outputNames() {
        return names(opened(), false);
    }

    /** Sizes of an input as the model states them; -1 may vary. */
    public synchronized long[] inputShape(int index) {
        return shape(opened(), index);
    }

    /** Runs the model on an array for each input by name; returns one for each output. */
    public synchronized Map<String, Tensor> run(Map<String, Tensor> inputs) {
        String[] names = names(opened(), true);
        ByteBuffer[] data = new ByteBuffer[names.length];
        int[] types = new int[names.length];
        long[][] shapes = new long[names.length][];
        for (int i = 0; i < names.length; i++) {
            Tensor tensor = inputs.get(names[i]);
            if (tensor == null) {
                throw new IllegalArgumentException(
                        "expected an array for the input '" + names[i] + "', got none");
            }
            data[i] = tensor.data;
            types[i] = tensor.type.ordinal();
            shapes[i] = tensor.shape;
        }
        String[] outputs = names(handle, false);
        int[] outTypes = new int[outputs.length];
        long[][] outShapes = new long[outputs.length][];
        ByteBuffer[] computed = run(handle, data, types, shapes, outTypes, outShapes);
        Map<String, Tensor> results = new LinkedHashMap<>();
        for (int i = 0; i < outputs.length; i++) {
            results.put(outputs[i], Tensor.copyOf(computed[i], outTypes[i], outShapes[i]));
        }
        return results;
    }

    @Override
    public synchronized void close() {
        free(handle);
        handle = 0;
    }

    private long opened() {
        if (handle == 0) {
            throw new IllegalStateException("expected a predictor that is not closed");
        }
        return handle;
    }

    private static native long create(String path, byte[] bytes, int threads, byte[] key);

    private static native long cloneOf(long handle);

    private static native void free(long handle);

    private static native String[] names(long handle, boolean inputs);

    private static native long[] shape(long handle, int index);

    private static native ByteBuffer[] run(long handle, ByteBuffer[] data, int[] types,
            long[][] shapes, int[] outTypes, long[][] outShapes);
}
