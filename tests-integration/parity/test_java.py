"""A Java program classifies images by a network that was trained before."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

import proa
from proa import nn
from proa.static import InputSpec

PROGRAMS = ("java", "javac", "cc")
BINDINGS = Path(__file__).parents[2] / "packages" / "inference" / "bindings" / "java"

#: Prints the class of each image of a file of float32 numbers.
CLASSIFY = """
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import proa.inference.Predictor;
import proa.inference.Tensor;

public final class Classify {
    public static void main(String[] arguments) throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of(arguments[1]));
        float[] pixels = new float[bytes.length / 4];
        ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).asFloatBuffer().get(pixels);
        try (Predictor predictor = new Predictor(arguments[0], 1)) {
            Tensor image = Tensor.of(pixels, pixels.length / 64, 1, 8, 8);
            Tensor output = predictor.run(Map.of("image", image)).get("scores");
            float[] scores = output.floats();
            for (int i = 0; i < scores.length; i += 10) {
                int best = 0;
                for (int k = 1; k < 10; k++) {
                    best = scores[i + k] > scores[i + best] ? k : best;
                }
                System.out.println(best);
            }
        }
    }
}
"""


def run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def classify(tmp_path: Path) -> list[object]:
    """The command of the program, compiled with the binding."""
    (tmp_path / "Classify.java").write_text(CLASSIFY)
    binding = sorted((BINDINGS / "proa").rglob("*.java"))
    run("javac", "-d", tmp_path, *binding, tmp_path / "Classify.java")
    java = Path(os.path.realpath(shutil.which("javac") or "")).parents[1] / "include"
    home = Path(str(files("proa_inference")))
    include = [f"-I{folder}" for folder in (java, java / "linux", home / "include")]
    link = [f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}", "-lproa_inference"]
    source = BINDINGS / "proa_inference_jni.c"
    library = tmp_path / "libproa_inference_jni.so"
    run("cc", "-shared", "-fPIC", *include, source, *link, "-o", library)
    return ["java", f"-Djava.library.path={tmp_path}", "-cp", tmp_path, "Classify"]


@pytest.mark.feature("L521")
@pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)), reason=f"needs {', '.join(PROGRAMS)}"
)
def test_java_classifies_by_a_network_that_was_trained(
    classify: list[object], tmp_path: Path
) -> None:
    pixels, digits = datasets.load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 1, 8, 8) / 8 - 1).astype(np.float32)
    proa.seed(0)
    network = nn.Sequential(
        nn.Conv2D(1, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(),
        nn.MaxPool2D(2, 2), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = proa.optimizer.Adam(3e-3, parameters=network.parameters())
    for step in range(240):
        part = slice(step * 64 % 1280, step * 64 % 1280 + 64)
        scores = network(proa.to_tensor(images[part]))
        nn.functional.cross_entropy(scores, proa.to_tensor(digits[part])).backward()
        optimizer.step()
        optimizer.clear_grad()
    network.eval()
    spec = [InputSpec([None, 1, 8, 8], "float32", "image")]
    proa.jit.save(network, tmp_path / "digits.proa", spec, output_names=["scores"])
    unseen = images[1280:]
    unseen.tofile(tmp_path / "images.bin")
    command = [*classify, tmp_path / "digits.proa", tmp_path / "images.bin"]
    found = np.array(run(*command).split(), int)
    np.testing.assert_array_equal(
        found, network(proa.to_tensor(unseen)).numpy().argmax(1)
    )
    assert (found == digits[1280:]).mean() > 0.9
