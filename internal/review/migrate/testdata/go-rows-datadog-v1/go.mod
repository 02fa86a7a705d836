module example.com/rows

go 1.21

require gopkg.in/DataDog/dd-trace-go.v1 v1.60.0
