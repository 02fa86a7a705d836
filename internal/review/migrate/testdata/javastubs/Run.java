import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.ToolProvider;

/** Compiles and runs the program of each line: a directory for its classes, its main class and its files, separated by tabs. An empty line ends its spans. */
public final class Run {
    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; System.out.println()) {
            var words = List.of(line.split("\t"));
            var options = new ArrayList<>(List.of("-d", words.get(0), "-cp", words.get(0), "-proc:none", "-nowarn"));
            options.addAll(words.subList(2, words.size()));
            if (ToolProvider.getSystemJavaCompiler().run(null, System.err, System.err, options.toArray(String[]::new)) != 0) {
                System.exit(1);
            }
            var path = new URL[] {Path.of(words.get(0)).toUri().toURL()};
            try (var classes = new URLClassLoader(path, ClassLoader.getPlatformClassLoader())) {
                var main = classes.loadClass(words.get(1)).getMethod("main", String[].class);
                main.setAccessible(true); // the class may have no modifier
                main.invoke(null, (Object) new String[0]);
                classes.loadClass("recorder.Recorder").getMethod("print").invoke(null);
            }
        }
    }
}
