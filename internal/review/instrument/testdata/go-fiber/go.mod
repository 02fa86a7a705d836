module example.com/fiber

go 1.26.0

require github.com/gofiber/fiber/v2 v2.52.12
