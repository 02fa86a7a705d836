module example.com/data

go 1.26.0

require (
	github.com/glebarez/sqlite v1.11.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/jmoiron/sqlx v1.4.0
	github.com/redis/go-redis/v9 v9.11.0
	go.mongodb.org/mongo-driver v1.17.10
	gorm.io/gorm v1.31.2
)
