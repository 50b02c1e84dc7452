package proa.inference;

/** A failed call of the library. */
public class ProaException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int status;

    ProaException(int status, String message) {
        super(message);
        this.status = status;
    }

    /** The kind of failure, a value of proa_status in proa_inference.h. */
    public int status() {
        return status;
    }
}
