import java.util.HashMap;
import java.util.Map;
import proa.inference.Predictor;
import proa.inference.Tensor;

/** Runs a model on ones and prints its outputs: Example MODEL. Unknown sizes are 1. */
public final class Example {
    public static void main(String[] arguments) {
        try (Predictor predictor = new Predictor(arguments[0], 1)) {
            Map<String, Tensor> inputs = new HashMap<>();
            String[] names = predictor.inputNames();
            for (int i = 0; i < names.length; i++) {
                long[] shape = predictor.inputShape(i);
                int count = 1;
                for (int d = 0; d < shape.length; d++) {
                    shape[d] = Math.max(shape[d], 1);
                    count *= (int) shape[d];
                }
                float[] ones = new float[count];
                java.util.Arrays.fill(ones, 1);
                inputs.put(names[i], Tensor.of(ones, shape));
            }
            for (Map.Entry<String, Tensor> output : predictor.run(inputs).entrySet()) {
                StringBuilder line = new StringBuilder(output.getKey()).append(':');
                for (float value : output.getValue().floats()) {
                    line.append(' ').append(value);
                }
                System.out.println(line);
            }
        }
    }
}
