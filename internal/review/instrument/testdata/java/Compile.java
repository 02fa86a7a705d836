import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.ToolProvider;

/** Compiles the files of each directory, with the class path of this program. */
public class Compile {
    public static void main(String[] dirs) throws Exception {
        for (String dir : dirs) {
            List<String> args = new ArrayList<>(List.of("-d", dir, "-proc:none", "-nowarn", "-cp", System.getProperty("java.class.path")));
            try (Stream<Path> files = Files.walk(Path.of(dir))) {
                files.map(Path::toString).filter(f -> f.endsWith(".java")).forEach(args::add);
            }
            if (ToolProvider.getSystemJavaCompiler().run(null, null, null, args.toArray(new String[0])) != 0) {
                System.exit(1);
            }
        }
    }
}
