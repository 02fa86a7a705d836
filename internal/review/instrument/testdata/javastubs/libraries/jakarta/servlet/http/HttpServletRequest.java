package jakarta.servlet.http;

public interface HttpServletRequest {
    String getMethod();

    String getScheme();

    String getHeader(String name);
}
