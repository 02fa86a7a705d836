dependencies {
    implementation("io.opencensus:opencensus-api:0.31.1")
    runtimeOnly("io.opencensus:opencensus-impl:0.31.1")
}
