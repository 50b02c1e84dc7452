import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import proa.inference.Predictor;
import proa.inference.ProaException;
import proa.inference.Tensor;

/** Checks the binding on a model of x (?, 6) to y (?, 3) and hidden (?, 8), plain and encrypted. */
public final class Checks {
    private static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    private static int status(Runnable body) {
        try {
            body.run();
            return 0;
        } catch (ProaException error) {
            check(!error.getMessage().isEmpty(), "a message");
            return error.status();
        }
    }

    private static Map<String, Tensor> ones(int rows) {
        float[] values = new float[rows * 6];
        Arrays.fill(values, 1);
        return Map.of("x", Tensor.of(values, rows, 6));
    }

    public static void main(String[] arguments) throws Exception {
        Path model = Path.of(arguments[0]), secret = Path.of(arguments[1]);
        Predictor predictor = new Predictor(null, Files.readAllBytes(model), 1, null);
        check(Arrays.equals(predictor.inputNames(), new String[] {"x"}), "names of inputs");
        check(Arrays.equals(predictor.outputNames(), new String[] {"y", "hidden"}), "of outputs");
        check(Arrays.equals(predictor.inputShape(0), new long[] {-1, 6}), "shape");
        float[] want = predictor.run(ones(1)).get("y").floats();
        Thread[] threads = new Thread[3];
        boolean[] right = new boolean[threads.length];
        for (int i = 0; i < threads.length; i++) {
            int index = i;
            Predictor copy = predictor.copy();
            threads[i] = new Thread(() -> {
                right[index] = true;
                for (int rows = 1; rows < 30; rows++) {
                    Tensor y = copy.run(ones(rows)).get("y");
                    right[index] &= y.shape()[0] == rows && y.floats()[3 * rows - 1] == want[2];
                }
                copy.close();
            });
            threads[i].start();
        }
        for (int i = 0; i < threads.length; i++) {
            threads[i].join();
            check(right[i], "results of thread " + i);
        }
        check(predictor.run(Map.of("x", Tensor.of(new float[0], 0, 6))).get("y").floats().length == 0,
                "an empty batch");
        check(status(() -> predictor.run(Map.of("x", Tensor.of(new float[5], 1, 5)))) == 1, "shape");
        check(status(() -> predictor.run(Map.of("x", Tensor.of(new double[6], 1, 6)))) == 1, "type");
        check(status(() -> predictor.run(Map.of("x", Tensor.of(new float[1],
                1, 1, 1, 1, 1, 1, 1, 1, 1)))) == 1, "rank");
        check(status(() -> new Predictor(null, "no model".getBytes(), 1, null)) == 6, "no model");
        byte[] key = new byte[32];
        check(status(() -> new Predictor(secret.toString(), null, 1, key)) == 6, "a wrong key");
        check(status(() -> new Predictor(secret.toString(), null, 1, new byte[3])) == 1, "a key");
        Arrays.fill(key, (byte) 7);
        try (Predictor opened = new Predictor(secret.toString(), null, 1, key)) {
            check(Arrays.equals(opened.run(ones(1)).get("y").floats(), want), "encrypted");
        }
        predictor.close();
        predictor.close();
        try {
            predictor.run(ones(1));
            check(false, "a closed predictor ran");
        } catch (IllegalStateException expected) {
            System.out.println("all checks passed");
        }
    }
}
