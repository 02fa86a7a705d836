// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// javaCallback is a method that a library calls.
type javaCallback struct {
	what    string // description for the step
	methods []string
	arity   int
	library string // library instrumentation is the artifact opentelemetry-LIBRARY
	agent   bool   // the Java agent instruments it
	start   func(j *javaFile, at javaMethod) javaStart
}

// spanKind returns the span kind of the callback: internal, server or consumer.
func (c javaCallback) spanKind() string {
	switch what, _, _ := strings.Cut(c.what, " "); what {
	case "runs":
		return "internal"
	case "requests":
		return "server"
	default: // messages, records
		return "consumer"
	}
}

// javaMethod is a method, lambda or loop that is a callback.
type javaMethod struct {
	fn         *syntax.Node
	annotation *syntax.Node // annotation in javaAnnotations, nil if there is none
	params     []string
}

// javaStart is the code that starts the operation of a callback.
type javaStart struct {
	call    string // call of a method of the helper class, without the class
	name    string // name of the span, for an annotation
	section string
	close   string // arguments of the close method
}

// javaCallbacks holds the callbacks by the type that declares them. A lambda can implement a type with one method.
var javaCallbacks = map[string]javaCallback{
	"org.eclipse.paho.client.mqttv3.MqttCallback":         {"messages of MQTT", []string{"messageArrived"}, 2, "paho", false, javaMQTT},
	"org.eclipse.paho.client.mqttv3.MqttCallbackExtended": {"messages of MQTT", []string{"messageArrived"}, 2, "paho", false, javaMQTT},
	"org.eclipse.paho.client.mqttv3.IMqttMessageListener": {"messages of MQTT", []string{"messageArrived"}, 2, "paho", false, javaMQTT},
	"org.eclipse.paho.mqttv5.client.MqttCallback":         {"messages of MQTT", []string{"messageArrived"}, 2, "paho", false, javaMQTT},
	"org.eclipse.paho.mqttv5.client.IMqttMessageListener": {"messages of MQTT", []string{"messageArrived"}, 2, "paho", false, javaMQTT},

	"redis.clients.jedis.JedisPubSub":                           {"messages of Redis", []string{"onMessage"}, 2, "jedis-pubsub", false, javaRedisMessage},
	"org.springframework.data.redis.connection.MessageListener": {"messages of Redis", []string{"onMessage"}, 2, "redis-pubsub", false, javaRedisMessage},
	"com.google.cloud.pubsub.v1.MessageReceiver":                {"messages of Pub/Sub", []string{"receiveMessage"}, 2, "pubsub", false, javaPubSub},

	"com.rabbitmq.client.DeliverCallback": {"messages of RabbitMQ", []string{"handle"}, 2, "rabbitmq", true, func(j *javaFile, m javaMethod) javaStart {
		return javaProcess("rabbitmq", j.subscribed("basicConsume", 0), m.params[1]+".getProperties().getHeaders()")
	}},
	"com.rabbitmq.client.DefaultConsumer": {"messages of RabbitMQ", []string{"handleDelivery"}, 4, "rabbitmq", true, func(j *javaFile, m javaMethod) javaStart {
		return javaProcess("rabbitmq", j.subscribed("basicConsume", 0), m.params[2]+".getHeaders()")
	}},
	"javax.jms.MessageListener":   {"messages of JMS", []string{"onMessage"}, 1, "jms", true, javaJMS},
	"jakarta.jms.MessageListener": {"messages of JMS", []string{"onMessage"}, 1, "jms", true, javaJMS},
	"io.nats.client.MessageHandler": {"messages of NATS", []string{"onMessage"}, 1, "nats", true, func(j *javaFile, _ javaMethod) javaStart {
		return javaProcess("nats", j.subscribed("subscribe", 0), "")
	}},

	"java.util.TimerTask": {"runs of the job", []string{"run"}, 0, "timer", false, javaJob},
	"org.quartz.Job":      {"runs of the job", []string{"execute"}, 1, "quartz", true, javaJob},

	"javax.servlet.http.HttpServlet":   {"requests of the servlet", javaServlets, 2, "servlet", true, javaServlet},
	"jakarta.servlet.http.HttpServlet": {"requests of the servlet", javaServlets, 2, "servlet", true, javaServlet},
}

var javaServlets = []string{"doGet", "doPost", "doPut", "doDelete", "doPatch"}

// javaLambdas lists calls that take a callback as a lambda: the first lambda argument with the number of parameters of
// the callback.
var javaLambdas = []struct{ pkg, method, callback string }{
	{"com.rabbitmq.client", "basicConsume", "com.rabbitmq.client.DeliverCallback"},
	{"org.eclipse.paho.client.mqttv3", "subscribe", "org.eclipse.paho.client.mqttv3.IMqttMessageListener"},
	{"org.eclipse.paho.client.mqttv3", "subscribeWithResponse", "org.eclipse.paho.client.mqttv3.IMqttMessageListener"},
	{"com.google.cloud.pubsub.v1", "newBuilder", "com.google.cloud.pubsub.v1.MessageReceiver"},
	{"io.nats.client", "createDispatcher", "io.nats.client.MessageHandler"},
}

// javaAnnotations holds the annotations of callback methods.
var javaAnnotations = map[string]javaCallback{
	"io.micronaut.scheduling.annotation.Scheduled": {"runs of the job", nil, -1, "micronaut-scheduled", false, javaJob},
	"io.quarkus.scheduler.Scheduled":               {"runs of the job", nil, -1, "quarkus-scheduled", false, javaJob},
	"jakarta.ejb.Schedule":                         {"runs of the job", nil, -1, "ejb-schedule", false, javaJob},
	"javax.ejb.Schedule":                           {"runs of the job", nil, -1, "ejb-schedule", false, javaJob},

	"org.springframework.scheduling.annotation.Scheduled":       {"runs of the job", nil, -1, "spring-scheduling", true, javaJob},
	"org.springframework.kafka.annotation.KafkaListener":        {"messages of Kafka", nil, -1, "spring-kafka", true, javaListener("kafka", "topics", ".ConsumerRecord", "")},
	"org.springframework.amqp.rabbit.annotation.RabbitListener": {"messages of RabbitMQ", nil, -1, "spring-rabbit", true, javaListener("rabbitmq", "queues", "org.springframework.amqp.core.Message", ".getMessageProperties().getHeaders()")},
	"org.springframework.jms.annotation.JmsListener":            {"messages of JMS", nil, -1, "spring-jms", true, javaListener("jms", "destination", ".jms.Message", "")},
	"io.awspring.cloud.sqs.annotation.SqsListener":              {"messages of SQS", nil, -1, "spring-cloud-aws", true, javaListener("aws_sqs", "queueNames", "", "")},
}

func javaProcess(system, destination, headers string) javaStart {
	start := javaStart{call: "process(" + strconv.Quote(system) + ", " + javaLiteral(destination), section: "process", name: strings.TrimSpace("process " + destination)}
	if headers != "" {
		start.call += ", " + headers
		start.section = "headers"
	}
	start.call += ")"
	return start
}

// javaLiteral returns a Java string literal, null if the text is empty. The text must need no escaping.
func javaLiteral(text string) string {
	if text == "" {
		return "null"
	}
	return `"` + text + `"`
}

func javaMQTT(j *javaFile, _ javaMethod) javaStart {
	return javaProcess("mqtt", j.subscribed("subscribe", 0), "")
}

func javaRedisMessage(j *javaFile, _ javaMethod) javaStart {
	return javaProcess("redis", j.subscribed("subscribe", 1), "")
}

func javaPubSub(_ *javaFile, m javaMethod) javaStart {
	return javaProcess("gcp_pubsub", "", m.params[0]+".getAttributesMap()")
}

func javaJMS(_ *javaFile, m javaMethod) javaStart {
	return javaStart{call: "process(" + m.params[0] + ", null)", section: "jms"}
}

func javaJob(j *javaFile, m javaMethod) javaStart {
	return javaStart{call: "job(" + strconv.Quote(j.functionName(m.fn)) + ")", section: "job"}
}

func javaServlet(j *javaFile, m javaMethod) javaStart {
	route := ""
	for _, d := range m.fn.Parent.Children {
		if d.Kind == syntax.Decorator && strings.HasSuffix(j.annotation(d), ".servlet.annotation.WebServlet") {
			route = j.element(d, "urlPatterns")
		}
	}
	return javaStart{call: "server(" + m.params[0] + ", " + javaLiteral(route) + ")", section: "servlet", close: m.params[1]}
}

// javaListener returns the start function for methods with an annotation that names the destination in an element.
// Message is the suffix of the type of the message parameter, and headers the code after the parameter that reads its
// headers.
func javaListener(system, element, message, headers string) func(*javaFile, javaMethod) javaStart {
	return func(j *javaFile, m javaMethod) javaStart {
		destination := j.element(m.annotation, element)
		start := javaProcess(system, destination, "")
		for i, p := range m.fn.Params() {
			switch of := j.resolve(p.Type); {
			case message == "" || !strings.HasSuffix(of, message):
			case system == "kafka":
				start.call, start.section = "process("+m.params[i]+")", "kafka"
			case system == "jms":
				start.call, start.section = "process("+m.params[i]+", "+javaLiteral(destination)+")", "jms"
			default:
				start = javaProcess(system, destination, m.params[i]+headers)
			}
		}
		return start
	}
}

// javaClient is a class whose methods call a database.
type javaClient struct {
	library string
	agent   bool
	system  string // "" for the system of the JDBC driver in the manifest
	methods string // names separated by spaces
	query   int    // index of the argument with the statement, -1 for prepared statements, -2 if the method is the operation
}

const (
	jdbcMethods = "executeQuery executeUpdate execute executeBatch executeLargeUpdate executeLargeBatch"
	// jedisObjects lists the methods that return no primitive type.
	jedisObjects    = "blpop brpop get getDel getSet hget hgetAll hkeys hmget hmset hvals keys lindex lpop lrange mget mset rpop set setex smembers zrange zrangeByScore zrank zscore"
	templateMethods = "query queryForObject queryForList queryForMap update batchUpdate"
	jedisMethods    = "append bitcount blpop brpop decr decrBy del exists expire expireAt get getDel getSet hdel hexists hget hgetAll hincrBy hkeys hlen hmget hmset hset hsetnx " +
		"hvals incr incrBy keys lindex llen lpop lpush lrange lrem mget mset persist publish rpop rpush sadd scard set setex setnx sismember smembers srem strlen ttl unlink " +
		"xadd xlen zadd zcard zincrBy zrange zrangeByScore zrank zrem zscore"
)

// javaClients holds the database clients by their types.
var javaClients = map[string]javaClient{
	"java.sql.PreparedStatement": {"jdbc", true, "", jdbcMethods, -1},
	"java.sql.CallableStatement": {"jdbc", true, "", jdbcMethods, -1},
	"java.sql.Statement":         {"jdbc", true, "", jdbcMethods, 0},

	"org.springframework.jdbc.core.JdbcTemplate":                          {"jdbc", true, "", templateMethods, 0},
	"org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate": {"jdbc", true, "", templateMethods, 0},

	"com.datastax.oss.driver.api.core.CqlSession": {"cassandra", true, "cassandra", "execute", 0},

	"redis.clients.jedis.Jedis":        {"jedis", true, "redis", jedisMethods, -2},
	"redis.clients.jedis.JedisPooled":  {"jedis", true, "redis", jedisMethods, -2},
	"redis.clients.jedis.JedisCluster": {"jedis", true, "redis", jedisMethods, -2},
	"redis.clients.jedis.UnifiedJedis": {"jedis", true, "redis", jedisMethods, -2},

	"org.neo4j.driver.Session":            {"neo4j", false, "neo4j", "run", -1},
	"org.neo4j.driver.Transaction":        {"neo4j", false, "neo4j", "run", -1},
	"org.neo4j.driver.TransactionContext": {"neo4j", false, "neo4j", "run", -1},
}

// javaMakers maps methods to the types that they return, in files that import the package of the type.
var javaMakers = map[string]string{
	"prepareStatement": "java.sql.PreparedStatement", "prepareCall": "java.sql.CallableStatement", "createStatement": "java.sql.Statement",
	"newHttpClient": "java.net.http.HttpClient", "newScheduledThreadPool": "java.util.concurrent.ScheduledExecutorService",
	"newSingleThreadScheduledExecutor": "java.util.concurrent.ScheduledExecutorService",
}

// javaTypes lists types that the code refers to outside of the tables of callbacks and clients. Imports with * resolve
// to them.
var javaTypes = []string{
	"java.net.http.HttpClient", "java.util.concurrent.ScheduledExecutorService", "java.util.concurrent.ScheduledThreadPoolExecutor",
	"com.sun.net.httpserver.HttpServer", "com.sun.net.httpserver.HttpsServer", "com.sun.net.httpserver.HttpContext", "org.apache.kafka.clients.consumer.ConsumerRecord",
	"org.springframework.amqp.core.Message", "javax.jms.Message", "jakarta.jms.Message", "javax.servlet.annotation.WebServlet", "jakarta.servlet.annotation.WebServlet",
}

// javaDrivers lists the artifacts of JDBC drivers and their database systems.
var javaDrivers = []struct{ artifact, system string }{
	{"org.postgresql:postgresql", "postgresql"},
	{"com.mysql:mysql-connector-j", "mysql"},
	{"mysql:mysql-connector-java", "mysql"},
	{"org.mariadb.jdbc:mariadb-java-client", "mariadb"},
	{"com.oracle.database.jdbc:", "oracle.db"},
	{"com.microsoft.sqlserver:mssql-jdbc", "microsoft.sql_server"},
	{"org.xerial:sqlite-jdbc", "sqlite"},
	{"com.h2database:h2", "h2database"},
	{"org.hsqldb:hsqldb", "hsqldb"},
	{"org.apache.derby:derby", "derby"},
	{"com.clickhouse:clickhouse-jdbc", "clickhouse"},
	{"com.ibm.db2:jcc", "ibm.db2"},
}

// javaOthers lists libraries that a change cannot instrument in the code, with the artifact of their instrumentation,
// "" if only the Java agent instruments them.
var javaOthers = []struct{ pkg, what, artifact string }{
	{"org.springframework.web.bind.annotation", "requests of Spring controllers", "opentelemetry-spring-boot-starter"},
	{"jakarta.ws.rs", "requests of JAX-RS resources", ""},
	{"javax.ws.rs", "requests of JAX-RS resources", ""},
	{"io.javalin", "requests of Javalin", ""},
	{"io.vertx", "requests of Vert.x", ""},
	{"io.undertow", "requests of Undertow", ""},
	{"io.grpc", "calls of gRPC", "opentelemetry-grpc-1.6"},
	{"okhttp3", "requests of OkHttp", "opentelemetry-okhttp-3.0"},
	{"org.springframework.web.client", "requests of RestTemplate", "opentelemetry-spring-web-3.1"},
	{"org.springframework.web.reactive.function.client", "requests of WebClient", "opentelemetry-spring-webflux-5.3"},
	{"org.apache.http.client", "requests of Apache HttpClient", "opentelemetry-apache-httpclient-4.3"},
	{"org.apache.hc.client5", "requests of Apache HttpClient", "opentelemetry-apache-httpclient-5.2"},
	{"org.apache.kafka.clients.producer", "messages to Kafka", "opentelemetry-kafka-clients-2.6"},
	{"com.mongodb.client", "calls of MongoDB", "opentelemetry-mongo-3.1"},
	{"io.lettuce.core", "calls of Redis", "opentelemetry-lettuce-5.1"},
	{"io.r2dbc", "calls of R2DBC", "opentelemetry-r2dbc-1.0"},
	{"jakarta.persistence", "calls of the database", "opentelemetry-jdbc"},
	{"javax.persistence", "calls of the database", "opentelemetry-jdbc"},
	{"org.hibernate", "calls of the database", "opentelemetry-jdbc"},
}

// javaTables returns the full names of the types in the tables, and the marks of files that may have a boundary or a
// span: the packages of the types and of OpenTelemetry.
func javaTables() (types map[string]bool, marks []string) {
	types = map[string]bool{}
	for _, names := range []iter.Seq[string]{maps.Keys(javaCallbacks), maps.Keys(javaAnnotations), maps.Keys(javaClients), slices.Values(javaTypes)} {
		for name := range names {
			types[name] = true
			marks = append(marks, name[:strings.LastIndexByte(name, '.')])
		}
	}
	for _, o := range javaOthers {
		marks = append(marks, o.pkg)
	}
	slices.Sort(marks)
	return types, append(slices.Compact(marks), "io.opentelemetry")
}

var (
	// javaAsynchronous matches result types of methods that continue after they return.
	javaAsynchronous = regexp.MustCompile(`Future|Mono|Flux|Publisher|CompletionStage|\bUni\b|\bMulti\b|Single\b|Observable|DeferredResult|Callable|Emitter|StreamingResponseBody`)
	// javaStatement and javaTable match the beginning of a SQL or CQL statement: the operation and the table.
	javaStatement = regexp.MustCompile(`(?is)^\s*(SELECT|INSERT|UPDATE|DELETE|MERGE|REPLACE|CREATE|DROP|ALTER|TRUNCATE|CALL)\b`)
	javaTable     = regexp.MustCompile(`(?is)^\s*(?:SELECT\b.*?\bFROM|INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|REPLACE\s+INTO|TRUNCATE\s+TABLE)\s+([A-Za-z_][A-Za-z0-9_.$]*)(\s*,)?`)
	javaJoined    = regexp.MustCompile(`(?is)\b(JOIN|UNION|SELECT\b.*\bSELECT)\b`)
)

// javaSummary returns the operation and the table of a statement. It reads the first 1,000 bytes, and returns "" for a
// part that it does not find.
func javaSummary(sql string) (operation, collection string) {
	sql = sql[:min(len(sql), 1000)]
	m := javaStatement.FindStringSubmatch(sql)
	if m == nil {
		return "", ""
	}
	operation = strings.ToUpper(m[1])
	if t := javaTable.FindStringSubmatch(sql); t != nil && t[2] == "" && len(t[1]) <= 100 && !javaJoined.MatchString(sql) {
		collection = t[1]
	}
	return operation, collection
}
