module example.com/cart

go 1.26.0

require gopkg.in/DataDog/dd-trace-go.v1 v1.74.8
