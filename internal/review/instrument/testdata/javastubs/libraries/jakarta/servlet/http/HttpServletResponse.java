package jakarta.servlet.http;

public interface HttpServletResponse {
    int getStatus();

    void setStatus(int status);
}
