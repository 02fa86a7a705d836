package com.example.shop;

import com.example.shop.messages.Messages;
import com.example.shop.orders.Fake;
import com.example.shop.orders.Store;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

public class Main {
    private static final long HOUR = 3600_000;

    private final Store store = new Store(Fake.connection());

    public static void main(String[] args) throws Exception {
        OpenTelemetrySdk.builder().buildAndRegisterGlobal();
        Main main = new Main();
        main.requests();
        main.jobs();
        Messages.run();
    }

    void requests() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/orders", this::orders);
        server.createContext(
                "/health",
                exchange -> {
                    exchange.sendResponseHeaders(204, -1);
                    exchange.close();
                });
        server.createContext("/broken").setHandler(exchange -> {
            throw new IllegalStateException("no stock");
        });
        server.start();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        HttpClient client = HttpClient.newBuilder().executor(executor).build();
        for (String path : new String[] {"/orders/42", "/orders/none", "/health", "/broken"}) {
            String method = path.equals("/broken") ? "POST" : "GET"; // which the client would repeat
            HttpRequest request = request(server, path).method(method, HttpRequest.BodyPublishers.noBody()).build();
            try {
                HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
                System.out.println(path + " " + response.statusCode() + " " + response.body());
            } catch (IOException e) {
                System.out.println(path + " failed");
            }
        }
        HttpRequest post = request(server, "/orders/7").POST(HttpRequest.BodyPublishers.ofString("one")).header("X-Test", "a").header("X-Test", "b").build();
        System.out.println(client.sendAsync(post, HttpResponse.BodyHandlers.ofString()).thenApply(HttpResponse::body).get());
        executor.shutdown();
        executor.awaitTermination(1, TimeUnit.MINUTES);
        server.stop(0);
    }

    private static HttpRequest.Builder request(HttpServer server, String path) {
        return HttpRequest.newBuilder(URI.create("http://localhost:" + server.getAddress().getPort() + path));
    }

    private void orders(HttpExchange exchange) throws IOException {
        String id = exchange.getRequestURI().getPath().substring("/orders/".length());
        String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        byte[] answer;
        int status = 200;
        try {
            answer = (store.find(id) + body + exchange.getRequestHeaders().get("X-Test")).getBytes(StandardCharsets.UTF_8);
        } catch (java.sql.SQLException e) {
            status = 500;
            answer = e.getMessage().getBytes(StandardCharsets.UTF_8);
        }
        exchange.sendResponseHeaders(status, answer.length);
        exchange.getResponseBody().write(answer);
        exchange.close();
    }

    void jobs() throws Exception {
        CountDownLatch runs = new CountDownLatch(2);
        ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor();
        scheduler.scheduleAtFixedRate(() -> poll(runs), 0, HOUR, TimeUnit.MILLISECONDS);
        Runnable sweep = () -> {
            System.out.println("sweep");
            runs.countDown();
            throw new IllegalStateException("nothing to sweep");
        };
        scheduler.scheduleWithFixedDelay(sweep, 0, HOUR, TimeUnit.MILLISECONDS);
        runs.await();
        scheduler.shutdown();
        scheduler.awaitTermination(1, TimeUnit.MINUTES);
        CountDownLatch expired = new CountDownLatch(1);
        Timer timer = new Timer();
        timer.schedule(
                new TimerTask() {
                    @Override
                    public void run() {
                        System.out.println("expire");
                        expired.countDown();
                    }
                },
                0,
                HOUR);
        expired.await();
        timer.cancel();
    }

    private void poll(CountDownLatch runs) {
        System.out.println("poll " + store.count());
        runs.countDown();
    }
}
