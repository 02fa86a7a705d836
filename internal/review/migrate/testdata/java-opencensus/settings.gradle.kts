rootProject.name = "helper"
