plugins {
    java
}

val jaegerVersion = "1.8.1"

dependencies {
    implementation("io.jaegertracing:jaeger-client:$jaegerVersion")
    implementation("io.opentracing:opentracing-api:0.33.0")
    implementation("com.squareup.okhttp3:okhttp:4.12.0")
}
