// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCleanText: lines of a private key in the output of a test are hidden.
func TestCleanText(t *testing.T) {
	const output = "--- FAIL: TestKey\r\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1c7\n-----END RSA PRIVATE KEY-----\n"
	require.Equal(t, "--- FAIL: TestKey\n[redacted]\n[redacted]\n[redacted]\n"+strings.Repeat("a ", MaxLine), Text(output+strings.Repeat("a ", MaxLine)))
}

// TestView: the value of a secret is hidden even if it is in another line than its name.
func TestView(t *testing.T) {
	const value = "hunter2-Xq81zz"
	for _, text := range []string{
		"password = (\n    \"hunter2-Xq81zz\"\n)\n",
		"password = (\n    # the old one\n    \"a-Xq81zz\"\n    \"hunter2-Xq81zz\"\n)\n",
		"stringData:\n  password: |\n    hunter2-Xq81zz\n  user: shop\n",
		"stringData:\n  password: >-\n\n    # hunter2-Xq81zz\n\n    hunter2-Xq81zz\n  user: shop\n",
		"- password: |\n    hunter2-Xq81zz\n  user: shop\n",
		"- name: DB_PASSWORD\n  # the old one\n  value: hunter2-Xq81zz\n- name: USER\n  value: shop\n",
		"- name: DB_PASSWORD\n  value: |\n    hunter2-Xq81zz\n- name: USER\n  value: shop\n",
		"os.Setenv(\"DB_PASSWORD\",\n\t\"hunter2-Xq81zz\")\nos.Setenv(\"USER\",\n\t\"shop\")\n",
		"os.Setenv(\"DB_PASSWORD\", // the old one\n\n\t`hunter2-Xq81zz`)\n",
		"const password = `\nhunter2-Xq81zz`\nconst user = `\nshop`\n",
		"password := `a\nhunter2-Xq81zz\n`\n",
		"password = \"\"\"\nhunter2-Xq81zz\n\"\"\"\nuser = \"\"\"\nshop\n\"\"\"\n",
		"password = r'''\nhunter2-Xq81zz\n'''\n",
		"db.password=\\\n  a-Xq81zz\\\n  hunter2-Xq81zz\ndb.user=shop\n",
		"password:\r\n\r\n  hunter2-Xq81zz\r\n",
		"password: # the old one: see below\n  hunter2-Xq81zz\n",
		"const password =\n  // the old one\n  /* of 2024 */ 'a-Xq81zz' +\n  'hunter2-Xq81zz';\n",
		"const password =\n  /*\n   * the old one\n   */\n  'hunter2-Xq81zz';\n",
		"password:\n  \"hunter2-Xq81zz\"\n",
		"f(password=(\n  \"hunter2-Xq81zz\"))\nuser = \"shop\"\n",
		"const password=\n  \"hunter2-Xq81zz\"\n",
		"var password string = \"hunter2-Xq81zz\"\nvar user string = \"shop\"\n",
		"password: str = 'hunter2-Xq81zz'\nuser: str = 'shop'\n",
		"class Settings:\n    password: Optional[str] = \"hunter2-Xq81zz\"\n",
		"const password: string = `hunter2-Xq81zz`;\n",
		"private password?: string = 'hunter2-Xq81zz';\n",
		"var password string =\n\t\"hunter2-Xq81zz\"\n",
		"val password: String =\n  \"hunter2-Xq81zz\"\n",
		"[\n  {\n    \"name\": \"DB_PASSWORD\",\n    \"value\": \"hunter2-Xq81zz\"\n  },\n  {\n    \"name\": \"USER\",\n    \"value\": \"shop\"\n  }\n]\n",
		"{\"Key\": \"DB_PASSWORD\",\n \"Value\": \"hunter2-Xq81zz\"}\n",
		"[{\"name\": \"USER\", \"value\": \"shop\"}]\n[{\"name\": \"DB_PASSWORD\", \"value\": \"hunter2-Xq81zz\"}]\n",
		"{\n  \"name\": \"DB_PASSWORD\",\n  \"type\": \"plain\",\n  \"value\": \"hunter2-Xq81zz\"\n}\n",
		// A call, an element, a default, an assignment.
		"os.Setenv(\"DB_PASSWORD\", \"hunter2-Xq81zz\")\nos.Setenv(\"USER\", \"shop\")\n",
		"config.set('db.password', 'hunter2-Xq81zz')\n",
		"DriverManager.builder().password(\"hunter2-Xq81zz\").build()\n.user(\"shop\")\n",
		"withPassword(`hunter2-Xq81zz`)\n",
		"<user>shop</user>\n<password>hunter2-Xq81zz</password>\n",
		"<property name=\"jdbc.user\" value=\"shop\"/>\n<property name=\"jdbc.password\" value=\"hunter2-Xq81zz\"/>\n",
		"- { name: DB_PASSWORD, value: hunter2-Xq81zz }\n- { name: USER, value: shop }\n",
		"ENV DB_USER shop\nENV DB_PASSWORD hunter2-Xq81zz\n",
		"password = os.environ.get(\"X\", \"hunter2-Xq81zz\")\nuser = os.environ.get(\"Y\", \"shop\")\n",
		"const password = process.env.P || \"hunter2-Xq81zz\";\n",
		"password = given or \"hunter2-Xq81zz\"\n",
		"const password = given ?? 'hunter2-Xq81zz'\n",
		// In a placeholder of a template.
		"log(`a ${process.env.DB_PASSWORD || 'hunter2-Xq81zz'}`);\nlog(`a ${process.env.DB_USER || 'shop'}`);\n",
		"log(`a ${password ?? \"hunter2-Xq81zz\"}`);\nlog(`a ${user ?? \"shop\"}`);\n",
		"log(`a ${password ?? `hunter2-Xq81zz`}`);\nlog(`a ${user ?? `shop`}`);\n",
		"log(`a ${given ? password : 'hunter2-Xq81zz'}`);\n",
		"log(f\"a {password or 'hunter2-Xq81zz'}\")\nlog(f\"a {user or 'shop'}\")\n",
		"log(f\"a {password or \"hunter2-Xq81zz\"}\")\nlog(f\"a {user or \"shop\"}\")\n",
		"log(\"a #{password || 'hunter2-Xq81zz'}\")\nlog(\"a #{user || 'shop'}\")\n",
		"@Value(\"${db.password:hunter2-Xq81zz}\")\n@Value(\"${db.user:shop}\")\n",
		"password: ${DB_PASSWORD:-hunter2-Xq81zz}\n",
		// Over several lines.
		"os.Setenv(\n\t\"DB_PASSWORD\",\n\t\"hunter2-Xq81zz\",\n)\nos.Setenv(\n\t\"USER\",\n\t\"shop\",\n)\n",
		"- key: DB_PASSWORD\n  value: hunter2-Xq81zz\n- key: USER\n  value: shop\n",
		"- value: hunter2-Xq81zz\n  name: DB_PASSWORD\n- value: shop\n  name: USER\n",
		"password:\n  - a-Xq81zz\n  - hunter2-Xq81zz\nusers:\n  - shop\n",
		"password = [\n  \"a-Xq81zz\",\n  \"hunter2-Xq81zz\",\n]\nusers = [\n  \"shop\",\n]\n",
		"password = textwrap.dedent(\"\"\"\n    hunter2-Xq81zz\n\"\"\")\n",
		"password = \"a-Xq81zz\" \"hunter2-Xq81zz\"\n",
		"password = \"a-Xq81zz\" + \\\n  \"hunter2-Xq81zz\"\n",
		"password = \"a-Xq81zz\" +\n  \"hunter2-Xq81zz\"\n",
		"-----BEGIN CERTIFICATE-----\nshop\n-----END CERTIFICATE----------BEGIN PRIVATE KEY-----\nhunter2-Xq81zz\n-----END PRIVATE KEY-----\n",
		"Public-Lines: 1\nshop\nPrivate-Lines: 1\nhunter2-Xq81zz\nPrivate-MAC: 0123\n",
		"shop.\nhunter2-Xq81zz\nhunter2-Xq81zz\n-----END RSA PRIVATE KEY-----\n",
		"password = \"\"\"hunter2-Xq81zz\n\"\"\"\nuser = \"\"\"shop\n\"\"\"\n",
		"password = (\"\"\"\nhunter2-Xq81zz\"\"\")\n",
		"const password = process.env.P ||\n  'hunter2-Xq81zz';\nconst user = process.env.U ||\n  'shop';\n",
		"const password = given\n  ?? 'a';\nconst password = given ??\n  'hunter2-Xq81zz';\n",
		"password = os.environ.get(\n    \"X\",\n    \"hunter2-Xq81zz\",\n)\n",
		"password = env.get(\"X\").orElse(\"hunter2-Xq81zz\")\n",
		"- name: DB_PASSWORD # the old one\n  value: hunter2-Xq81zz\n",
		"- value: hunter2-Xq81zz\n  type: plain\n  name: DB_PASSWORD\n- value: shop\n  type: plain\n  name: USER\n",
		"password: !vault |\n  hunter2-Xq81zz\nuser: !x |\n  shop\n",
		"password: &a\n  hunter2-Xq81zz\n",
		"password:\n  value: hunter2-Xq81zz\n",
		"args:\n  - --password\n  - hunter2-Xq81zz\n  - --user\n  - shop\n",
		"command: [\"--password\",\n  \"hunter2-Xq81zz\"]\n",
		"env: [{name: DB_PASSWORD, value: hunter2-Xq81zz}]\n",
	} {
		var shown strings.Builder
		for _, l := range viewOf(t, []byte(text)) {
			shown.WriteString(l.Text + "\n")
		}
		require.NotContains(t, shown.String(), value, text)
		require.Equal(t, strings.Count(text, "shop"), strings.Count(shown.String(), "shop"), "%s\n%s", text, shown.String())
		require.NotContains(t, Text(text), value)
	}
}

// TestViewShown: code without the value of a secret is shown.
func TestViewShown(t *testing.T) {
	for _, text := range []string{
		"password = (\n    settings.db_password\n)\n",
		"DB_PASSWORD=\n\nDB_USER=shop\n",
		"const password =\n  process.env.DB_PASSWORD;\n",
		"query = `\nSELECT password\nFROM users`\n",
		"description: |\n  The password of the user\n",
		"names := []string{\n\t\"password\",\n\t\"token\",\n}\n",
		"log.Printf(\"wrong password\",\n\tuser)\n",
		"password: |\nuser: shop\n",
		"func (s *store) password(user string) (string, error) {\n\treturn s.passwords[user], nil\n}\n",
		"def login(password: str, host: str = 'localhost') -> bool:\n",
		"{\"name\": \"password\",\n \"type\": \"string\"}\n",
		"const password: string = process.env.DB_PASSWORD;\n",
		"names := []string{\"password\", \"token\"}\n",
		"app.post(\"/password/reset\", \"handlers\")\n",
		"password = os.environ.get(\"DB_PASSWORD\")\n",
		"span.setAttribute(\"user.password\", password)\n",
		"tokens = [\n  IF,\n  ELSE,\n]\n",
		"foo(\n  \"a\",\n  \"b\",\n)\n",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"client, err := sql.Open(\"postgres\", dsn)\n",
		"r.fail(errToken(\"it has expired\"))\n",
		"slog.Info(\"invalid password\", \"method\", m)\n",
		"env:\n  - name: MODE\n    value: fast\n",
	} {
		require.Equal(t, text, Text(text))
	}
	require.Contains(t, Text("const marker = \"-----BEGIN PRIVATE KEY-----\"\nfunc f() {\n\treturn\n}\n"), "\nfunc f() {\n\treturn\n}\n")
}

// secretForms are lines with a secret, @@, in many languages and formats, between §. \q is a backtick.
const secretForms = `
var jwtKey = []byte("@@") § hmacKey := "@@" § session_key = '@@' § DB_PW=@@ § pw = os.Getenv("P")\npw = "@@" § url := "https://hooks.slack.com/services/T0/B0/@@"
String p =\n  env("DB_PASSWORD")\n  .orElse("@@"); § foo({\n  auth: {\n    user: 'x',\n    pass: '@@',\n  },\n})
# password = (\n#    "@@"\n# ) § // os.Setenv("DB_PASSWORD",\n//   "@@") § passwords = {\n  'a': '@@',\n} § def f(a,\n  password='@@'):
password = '''@@''' § password = """@@""" § password = r'''@@''' § password = b"""@@"""
connect(password='''@@''') § {'password': '''@@'''} § password = ('abc' '@@') § SECRET = "@@".encode("utf-8")
password = str('@@') § pw = env.str('DB_PASSWORD', default='@@') § assert password == '@@' § if password == '@@':
if '@@' == password: § if token in ('@@',): § password: Annotated[str, Field(min_length=1)] = '@@'
password: dict[str, str] = {'a': '@@'} § password = a = '@@' § [user, password] = ['shop', '@@']
password = '%s' % '@@' § cookies={'session': '@@'} § headers={'Authorization': f'Bearer @@'}
headers={'Authorization': 'Bearer ' + '@@'} § HTTPBasicAuth('admin', '@@') § basic_auth=('admin', '@@')
var jwtSecret = []byte ( "@@" ) § secret := []byte(\q@@\q) § token := strings.TrimSpace("@@")
flag.StringVar(&p,\n\t"password",\n\t"@@",\n\t"x") § flag.StringVar(&p, "password",\n\t"@@", "x")
map[string][]byte{"password": []byte("@@")} § {\n\t"DB_PASSWORD",\n\t"@@",\n},
cmd.Env = append(cmd.Env, "DB_PASSWORD="+"@@") § req.Header.Add("Authorization", "Bearer "+"@@")
req.Header["Authorization"] = []string{"@@"} § hmac.New(sha256.New, []byte("@@"))
subtle.ConstantTimeCompare([]byte(token), []byte("@@")) § if token == "@@" { § switch token {\ncase "@@":
char[] password = "@@".toCharArray(); § ks.load(in, "@@".toCharArray()); § .withPassword(\n    "@@"\n)
if (password.equals("@@")) { § "@@".equals(password) § @DefaultValue("@@") String password
@Value("${DB_PASS:@@}") private String password; § new UsernamePasswordCredentials("a", "@@")
String password = "abc"\n    + "@@"; § List<String> tokens = List.of("@@"); § String[] password = {"@@"};
.header("Authorization", "Bearer " + "@@") § basicAuthentication("a", "@@")
password: (process.env.DB_PASSWORD ?? '@@') as string, § password: process.env.DB_PASSWORD || '@@', // x
{ password: process.env.P || '@@' } § connect({ user: 'shop', password: process.env.P || '@@' });
password: String('@@'), § const password: Ref<string> = ref('@@');
const [password, setPassword] = useState('@@'); § Object.defineProperty(c, 'password', { value: '@@' });
case 'password': return '@@'; § if (password === '@@') { § if (req.headers['x-api-key'] !== '@@') {
['@@'].includes(token) § auth: { user: 'a', pass: '@@' } § jwt.sign(p, '@@') § secretOrKey: '@@',
Authorization: 'Bearer ' + '@@' § env DB_PASSWORD @@ § Env DB_PASSWORD @@ § ENV db.password @@
ENV DB_PASSWORD \\\n  @@ § CMD ["app", \\\n  "--password", \\\n  "@@"] § CMD app --password @@ § password '@@'
password "@@" § storePassword "@@" § git+https://@@@github.com/x/y.git § <password>\n  @@\n</password>
<property value="@@" name="DB_PASSWORD" /> § <property\n  name="DB_PASSWORD"\n  value="@@" /> § password: !!str @@
password: &p @@ § password: &p "@@" § x: &password @@ § password: "abc\n  @@" § password: abc\n  @@
password:\n  abc\n  @@ § password:\n  'abc\n  @@' § password: &x !!str |\n  @@ § password:\n  |\n  @@
args:\n- --password # x\n- @@ § args:\n- --password\n- |\n  @@ § args:\n-\n  --password\n-\n  @@
- value: abc\n    @@\n  name: DB_PASSWORD § - variable: DB_PASSWORD\n  value: @@
inputs:\n  password:\n    default: @@ § DbPassword:\n  Type: String\n  Default: @@ § db.passwords=@@
db.password=abc\\\n  @@ § db.password=abc\\\n  def\\\n  @@ § db.password @@ § db.password\t@@
db.pass\\u0077ord=@@ § DB_PASSWORD=$'@@' § DB_PASSWORD=$"@@" § read -r DB_PASSWORD <<EOF\n@@\nEOF
DB_PASSWORD=$(cat <<EOF\n@@\nEOF\n) § read -r DB_PASSWORD <<< '@@' § echo '@@' > password § setenv DB_PASSWORD @@
setenv DB_PASSWORD "@@" § set -x DB_PASSWORD @@ § set -gx DB_PASSWORD '@@' § $DbPassword = '@@'
$password = ConvertTo-SecureString "@@" -AsPlainText -Force § mysql --user root --password @@
mysql --password '@@' § mysql --password \\\n  @@ § vault login --token @@ § ENV DB_PASSWORD \\\n    @@
environment:\n  DB_PASSWORD: &pw @@ § environment:\n  DB_PASSWORD: !!str @@
environment:\n  DB_PASSWORD: !!str "@@" § environment:\n  DB_PASSWORD: !!str &a\n    @@ § ? DB_PASSWORD\n: @@
? password\n: "@@" § password: "abc\\\n  @@" § password: 'abc\n  @@' § passwords:\n- @@ § password:\n  prod: @@
password:\n  default: @@ § password:\n  type: string\n  value: @@
password:\n  description: the password\n  default: @@ § env:\n- value: |\n    @@\n  name: DB_PASSWORD
env:\n- value:\n    @@\n  name: DB_PASSWORD § env:\n- name: DB_PASSWORD\n  value:\n    @@
env:\n- name: DB_PASSWORD\n  value:\n    "@@" § env: [{value: @@, name: DB_PASSWORD}]
env: [{"value": "@@", "name": "DB_PASSWORD"}] § [{"value":"@@","name":"DB_PASSWORD"}]
- name: DB_PASSWORD\n  value: abc\n    @@ § env {\n  name  = "DB_PASSWORD"\n  value = "@@"\n}
env {\n  value = "@@"\n  name  = "DB_PASSWORD"\n} § { value = "@@", name = "DB_PASSWORD" }
{Value: "@@", Name: "DB_PASSWORD"} § EnvVar(\n    name="DB_PASSWORD",\n    value="@@",\n)
EnvVar(value="@@", name="DB_PASSWORD") § db.password = abc\\\n    @@ § db.password[0]=@@ § db.password.prod=@@
DB_PASSWORD_PROD=@@ § DB_PASSWORD2=@@ § DB_PASSWORD_1=@@ § password_old=@@ § DB_PASS=@@ § passphrase=@@
passwords = [\n  "@@",\n] § password = <<EOF\n@@\nEOF § password = <<-EOT\n  @@\nEOT
private_key = <<"EOT"\n  @@\nEOT § variable "db_password" {\n  default = "@@"\n}
variable "db_password" {\n  type = string\n  default = "@@"\n} § password = coalesce(\n  var.x,\n  "@@",\n)
$password = <<<EOT\n@@\nEOT; § password = <<~EOT\n  @@\nEOT § ENV['DB_PASSWORD'] ||= '@@'
ENV.fetch('DB_PASSWORD') { '@@' } § {"password"\n:"@@"} § {\n  "password"\n  :\n  "@@"\n}
{"pass\\u0077ord": "@@"} § {"password": {"value": "@@"}} § {"password": {\n  "value": "@@"\n}}
{"password": {\n  "default": "@@"\n}} § <password><![CDATA[@@]]></password>
<password>\n<![CDATA[\n@@\n]]>\n</password> § <password\n   type="x">@@</password>
<property value="@@" name="password"/> § <property name="password">@@</property>
<property name="password">\n  <value>@@</value>\n</property> § <property name="password"\n  value="@@"/>
<property value="@@"\n  name="password"/>
<property>\n  <name>db.password</name>\n  <value>@@</value>\n</property>
<property><name>db.password</name><value>@@</value></property> § <key>password</key>\n<string>@@</string>
<key>password</key><string>@@</string> § <password>@@\n</password> § <entry key="password">@@</entry>
<param-name>password</param-name>\n<param-value>@@</param-value> § <env name="DB_PASSWORD">@@</env>
config.password ||= '@@'; § config.password ??= '@@'; § password += '@@'; § const password\n  = '@@';
const password\n  =\n  '@@'; § const password = prod ? '@@' : other; § const password = prod\n  ? '@@'\n  : other;
const password = process.env.P\n  || '@@'; § const password = process.env.P\n  ?? '@@';
const password = 'abc'\n  + '@@'; § const password = Buffer.from('@@');
const password = process.env.DB_PASSWORD || '@@' || x; § const password = /* old */ '@@';
const password = ('@@'); § const password = <string>'@@'; § const password = ['abc', '@@'].join('');
const password = () => '@@'; § getPassword() { return '@@'; } § password!: string = '@@';
password: { a: string } = '@@'; § password := []byte("@@") § var password = []byte("@@")
var password []byte = []byte("@@") § passwords := []string{"@@"} § var tokens = []string{\n\t"@@",\n}
var password = []string{\n\t"@@",\n} § Config{\n\tPassword: []byte("@@"),\n} § Password: ptr("@@"),
Password string \qdefault:"@@"\q § Password string \qenv:"DB_PASSWORD" envDefault:"@@"\q § if password == "@@" {
if password != "@@" { § req.SetBasicAuth("admin", "@@") § c.SetPassword(\n\t"@@",\n)
credentials.NewStaticCredentials("x", "@@", "") § password := strings.Join([]string{"abc", "@@"}, "")
password := cmp.Or(os.Getenv("P"), "@@", x) § password := fmt.Sprintf("@@%d", 1) § password := /* x */ "@@"
password = ('@@',) § auth=('admin', '@@') § os.getenv('DB_PASSWORD', default='@@')
config('DB_PASSWORD', default='@@') § config(\n    'DB_PASSWORD',\n    default='@@',\n)
password: str = Field('@@') § password: str = Field(default='@@') § password: SecretStr = SecretStr('@@')
password = SecretStr('@@') § password: "str" = '@@' § password = x if x else '@@'
p.add_argument('--password', default='@@') § p.add_argument(\n    '--password',\n    default='@@',\n)
@click.option('--password', default='@@') § password = ('abc'\n            '@@')
password = ''.join(['abc', '@@']) § password = base64.b64decode('@@') § password: str = field(default='@@')
char password[] = "@@".toCharArray(); § String password = new String("@@");
@ConfigProperty(name = "db.password", defaultValue = "@@")
@ConfigProperty(\n  name = "db.password",\n  defaultValue = "@@")
props.put(SslConfigs.SSL_KEYSTORE_PASSWORD_CONFIG, "@@"); § props.put(DB_PASSWORD, "@@"); § .password(\n   "@@")
Optional<String> password = Optional.of("@@"); § String password = x == null ? "@@" : x;
String password\n    = "@@"; § val password by lazy { "@@" } § mapOf("password" to "@@")
const PASSWORD: &'static str = "@@"; § let password = "@@".to_string(); § password: Some("@@".into()),
#define DB_PASSWORD "@@" § char password[] = "@@"; § char password[32] = "@@"; § std::string password{"@@"};
public string Password { get; set; } = "@@"; § string password = @"@@"; § string password = $"@@";
my $password = q{@@}; § my $password = '@@'; § CREATE USER a WITH PASSWORD '@@'; § ALTER ROLE a PASSWORD '@@'
machine x login a password @@ § https://@@@github.com/x/y
AccountName=x;AccountKey=@@; § 'Authorization': 'Bearer ' + '@@'
OTEL_EXPORTER_OTLP_HEADERS: "x-honeycomb-team=@@" § OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20@@"
SecretKey: "@@" § SECRET_KEY = '@@' § SECRET_KEY_BASE=@@ § auth: "@@" § RABBITMQ_DEFAULT_PASS=@@ § signing_key=@@
encryptionKey=@@ § JWT_SECRET_KEY=@@ § secrets: '@@' § tokens = ['@@'] § passwords = ['@@']
DatabasePasswordValue = '@@' § m_password_ = '@@' § password_ = '@@' § $password = '@@' § password:\r  @@\r
password = (\r    '@@'\r)\r § password: |\r  @@\r § const password =\u2028'@@' § password:\u0085  @@
password\u00a0=\u00a0'@@' § pass\u200bword = '@@' § password\uff1a@@ § password =\u000b'@@' § password =\u000c'@@'
db.password = abc\\\r\n    @@\r
s.replace(/[\q'"]/g, '');\njwt.verify(token, '@@'); § /\q/.test(s);\nif (a) {\n  jwt.verify(token, '@@');\n} § if c == '\q' || c == '\q' {\npassword := "@@"
q = \qa\nb\q\nif password == "@@" { § const q = \qabc\n  const [password, setPassword] = useState('@@');
Key string \qenv:"JWT_SECRET" envDefault:"@@"\q § Key string \qenvconfig:"SIGNING_KEY" default:"@@"\q § Key string \qdefault:"@@" env:"API_TOKEN,required"\q
redis-server --requirepass @@ § command: ["redis-server", "--requirepass", "@@"] § command:\n- --requirepass\n- @@ § requirepass @@ § masterauth @@
FERNET_KEY=@@ § - service_key: @@ § passcode = "@@" § psk: @@ § crypto.createHmac('sha256', '@@').update(b) § Algorithm.HMAC256("@@");
Keys.hmacShaKeyFor(Decoders.BASE64.decode("@@")); § Jwts.builder().signWith(SignatureAlgorithm.HS256, "@@") § aes.NewCipher([]byte("@@"))
crypto.createCipheriv('aes-256-cbc', '@@', iv); § {'jwt': {'key': '@@'}} § "Jwt": { "Key": "@@", "Issuer": "x" } § "jwt": {\n  "key": "@@"\n}
encrypt: {key: "@@"} § encrypt: {key: @@} § encrypt.key=@@ § url: jdbc:oracle:thin:shop/@@@db:1521/x
{{- /*\nShop (c) [x]\n*/}}\nstringData:\n  password: |\n    @@ § {{/*\nsee (the runbook\n*/ -}}\nkind: Secret\nstringData:\n  db: @@
{{- /*\n * Shop\n */ -}}\nenv:\n- name: DB_PASSWORD\n  value: |\n    @@ § a:\n  {{- /*\n  Shop\n  */}}\n  b:\n    password:\n      @@
/* x */ if (password === '@@') { § /* x */ var password string = "@@" § /*\n * x\n */ var password string = "@@" § n = a // 2 if password == "@@" else 0
- name: INVITE_TOKEN\n  value: @@ § os.Setenv("PUBLICATION_DB_PASSWORD", "@@") § app.config["WTF_CSRF_SECRET_KEY"] = "@@" § TOKEN_FILE_PASSWORD=@@
DB_PASS ?= @@ § export API_TOKEN ?= @@ § API_TOKEN += @@ § API_TOKEN ::= @@ § API_TOKEN+=@@ § : "${DB_PASSWORD:=@@}" § DB_PASS="${DB_PASS:=@@}"
tokens: [abc, @@] § users:\n- name: a\n  tokens: [\n    @@,\n  ] § tokens:\n  [\n    @@\n  ] § PASSWORDS=(a @@) § declare -A TOKENS=(\n  [shop]=@@\n)
args: ["sh", "-c", "x --db-password @@"] § "start": "node index.js --db-password '@@'" § command: "x --db-password=@@" § command: "x --api-token @@ -v"
c = "[{\\"environment\\":[{\\"value\\":\\"@@\\",\\"name\\":\\"DB_PASSWORD\\"}]}]" § "c": "{\\"password\\":{\\"value\\":\\"@@\\"}}" § c = '{"auth": {"pass": "@@"}}'
"if password == '@@':\\n", § "os.environ.setdefault('API_TOKEN', '@@')\\n", § "exec": ["pm.environment.set(\\"api_token\\", \\"@@\\");"]
resource "x" "db" {\n  name  = "/prod/db/password"\n  value = "@@"\n} § {"Name": "/prod/db/password", "Value": "@@"} § - Name: /prod/db/password\n  Value: @@
{"name": "Db:Password", "value": "@@"} § "Db:Password": "@@", § ["Jwt:SecretKey"] = "@@", § config["Db:Password"] = "@@";
[passwords]\nalice = @@ § [secrets]\n# x\n\nstripe = "@@" § [database.credentials]\nvalue = "@@" § [[secrets]]\nname = "x"\nvalue = "@@" § [app.api_keys] # x\na = 1\nb: @@
[secrets]\na = [\n  "@@",\n]
npm config set //registry.npmjs.org/:_authToken @@ § RUN npm set "//registry.npmjs.org/:_authToken" "@@" § //r.example.com/:_auth=@@
\q\q\qyaml\npassword: | # see \qvault\q\n  @@\n\q\q\q § x = \q\npassword: |\n  a\q + \q\n  @@\q
<machineKey validationKey="@@" decryptionKey="@@" /> § PresharedKey = @@ § rootpw @@ § bindpw @@ § keytool -storepass @@ § curl -H "x-functions-key: @@" § - name: DB_PASS_PROD\n  value: @@
`

// shownForms are lines without a secret.
const shownForms = `
def login(password: str, host: str = '@@') -> bool: § connect(password=x, host='@@') § {password: x, host: '@@'}
const token = next();\nlog('@@'); § if (token) {\n  log('@@');\n} § if token:\n    log("@@") § x := parse(token)\nlog("@@")
func token() string {\n\treturn name\n}\nlog("@@") § type T struct {\n\tToken string \qjson:"token,omitempty"\q\n\tName string \qjson:"@@"\q\n}
start(token, func() {\n\tlog("@@")\n}) § describe('token', () => {\n  log('@@');\n}); § class Token:\n    """@@"""\n    name = "@@"
- name: USER\n  value: @@\n- name: DB_PASSWORD\n  valueFrom: x § password: |\nuser: @@ § password:\n  x\nuser: @@
<user>@@</user>\n<password></password> § <a name="user" value="@@"/>\n<a name="password"/> § // a token, as "@@"
password: str\nuser: @@ § {"max_tokens": 4096, "x": "@@"} § token_url: "@@" § throw new Error("the token of the user @@ has expired")
span.SetAttributes(attribute.String("user.id", id), attribute.String("shop", "@@"))\nsetToken(t) § {"password": x,\n "user": "@@"}
slog.Info("@@", "user", user, "password", password) § slog.Info("@@", "password", req.Password) § log.Printf("@@ %s %s", user, password)
channel.publish(routing_key='@@') § logger.info("@@ %s", password) § logger.info({ password }, '@@') § log.info("@@ {} {}", user, password);
/* the password */ user = "@@" § /*\n * the password\n */ var user = "@@" § // the password (\nuser = "@@" § {{- /*\nthe password\n*/}}\nuser:\n  @@
name string \qhelp:"@@" name:"api-key-file"\q § | \q--secret-key-file\q | @@ of the secret | § span.setAttribute("secret_name", "@@") § secretName: @@
| \q--cors-allowed-origins\q | the @@ of tokens and keys | § run("--bootstrap-api-key", key, "--shop-url", url)
"password := @@()" § token += @@ § token ?= @@
tokens: [@@, name] § users: [@@, a1b2c3]\ntoken: x § x = token(@@, int32) § tokens := f(a=(@@))
"--client-secret needs --client-id: @@" § "c": "{\\"user\\":{\\"value\\":\\"@@\\"}}" § log("the password of user '@@', which is wrong")
app.post("/oauth/token", "@@") § resource "x" "y" {\n  name = "/prod/db/user"\n  value = "@@"\n} § name = "x"\nget("/db/password", "@@") § {"path": "/db/password", "value": "@@"}
[secrets]\na = 1\n[users]\nname = "@@" § [tokens]\n\nf("@@") § x = [\n  [tokens]\n]\nuser = "@@" § [Secrets]\npublic string User = "@@";
API_TOKEN: ***\nuser: @@ § npm config set //@@/:_authToken "${NPM_TOKEN}" § npm config set //@@/:_authToken=$TOKEN
\q\q\qyaml\npassword: | # see \qvault\q\n  x\nuser: @@\n\q\q\q § x = \qa\n if (token) { b\q + \qc {\n  }}\q\nuser = "@@" § \q\q\qyaml\npassword:\n\q\q\q\n  @@
x = config["Db:Password"]; // @@\nlog("@@") § x = config["Db:Password"] ?? @@ § x = \q\npassword: |\n  a\n\q\n// the @@ of x123456789
`

// forms returns the texts of a table of forms, with value in place of @@.
func forms(t *testing.T, table, value string) (texts []string) {
	for form := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(table), "\n", " § "), " § ") {
		text, err := strconv.Unquote(`"` + strings.NewReplacer(`"`, `\"`, `\q`, "`").Replace(form) + `"`)
		require.NoError(t, err, form)
		texts = append(texts, strings.ReplaceAll(text, "@@", value)+"\n")
	}
	return texts
}

// TestForms: the value of a secret is hidden in each form, and other lines are shown.
func TestForms(t *testing.T) {
	const value = "hunter2-Xq81zz"
	for _, text := range forms(t, secretForms, value) {
		require.NotContains(t, Text(text), value, "%q", text)
		require.NotContains(t, Text("x := 1\n\n"+text+"\nx := 2\n"), value, "%q", text)
	}
	require.NotContains(t, Text("password: letmein\n"), "letmein")
	for _, text := range forms(t, shownForms, "shop") {
		require.Equal(t, strings.Count(text, "shop"), strings.Count(Text(text), "shop"), "%q: %q", text, Text(text))
	}
}

// Passwords are values that look like code, types or words.
var Passwords = []string{
	"Kx92jd82jKd02jd92jdAAq", "Summer2024", "Welcome1", "A1b2C3d4", "pa$$w0rd99", "hunter2.Xq81zz", "kx92jd82jKd02jd.jd82", "Kx92jd82(jKd02jd92",
	"Kx92_jd82/jKd02+jd92==", "x92jd-82jKd02jd92", "Correct4horse-battery", "Kx92jd82,jKd02jd92", "a1::b2", "Kx92jd82[jKd02jd92",
}

// TestPasswords: an unquoted value of a key that is the name of a secret is hidden, whatever its form.
func TestPasswords(t *testing.T) {
	for _, form := range strings.Split(`
DB_PASS: @@ § environment:\n  N8N_ENCRYPTION_KEY: @@ § environment:\n  APP_KEY: @@ # x § headers:\n  x-honeycomb-team: @@
kind: Secret\nstringData:\n  DB_PASS: @@ § ansible_become_pass: @@ § app:\n  masterKey: @@ § api:\n  key: @@ § encrypt:\n  key: @@
mail.smtp.pass = @@ § app.jwt.signing-key = @@ § license-key=@@ § signing_key : @@
note: see (the runbook\nDB_PASS: @@ § a:\n  b: in [0, 100) ms\n  DB_PASS: @@ § a: in [0\n---\nDB_PASS: @@ § a: |\n  if x {\nDB_PASS: @@
- a: x (y\n- password: @@ § a:\n- b: x {\n  password: @@ § text (\n---\npassword: @@
a: x (y\nb:\n  password:\n    @@ § a: x [y\nb:\n- name: DB_PASSWORD\n  value: @@`, "\n") {
		for _, value := range Passwords {
			for _, text := range forms(t, form+" ", value) {
				require.NotContains(t, Text(text), value, "%q", text)
			}
		}
	}
}

// TestPrivateKeys: the lines of a private key are hidden, whatever precedes and follows them in the line.
func TestPrivateKeys(t *testing.T) {
	const first, second = "MIIEpAIBAAKCAQEA1c7LEAKaaaaaaaaaaaaaaaaaaaaaaaaa", "b2JkZWFkYmVlZg1c7LEAKbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	for _, around := range []string{
		"@@", "    @@", "\t\"@@\\n\" +", "  '@@',", "# @@", "// @@", " * @@", "- @@", "- \"@@\"", "'@@'.",
		"\"@@\" & _", "b.append(\"@@\");", "f.println(\"@@\")",
		"\"@@\\n\" + // x", "'@@' # x", "> @@", "| @@", "2026-01-01 INFO @@",
		"    main_test.go:12: @@", "    b'@@\\n'", "    r'@@'", "\u00a0@@", "@@\r",
	} {
		for _, ends := range [][2]string{
			{"-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"},
			{"-----BEGIN PRIVATE KEY-----", "x"},
			{"x", "-----END PRIVATE KEY-----"},
			{"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", "---- END SSH2 ENCRYPTED PRIVATE KEY ----"},
			{"Private-Lines: 2", "Private-MAC: 00"},
		} {
			var text strings.Builder
			for _, s := range []string{ends[0], first, second, ends[1]} {
				text.WriteString(strings.ReplaceAll(around, "@@", s) + "\n")
			}
			if !strings.Contains(ends[0], "Lines") || strings.TrimSpace(around) == "@@" {
				require.NotContains(t, Text(text.String()), "LEAK", text.String())
			}
		}
	}
}

// hostileUnits are texts whose repetition makes cleaning slow if the work is not linear.
var hostileUnits = []string{
	"password=", "a\n", "name: password\n", "value: a\n", "(", "{", "[}", "<a ", "<a></b>", "'a", "\"\\\"", "\\\" # */|", "${a", "`x", "\"\"\"", "/*",
	"a: ", "- a: b\n", "<<E\n",
	"AAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n",
	"token ", "--token \\", "'a','", "password = (\n", "*/{", "password: [\n", "--token # ", "\\\"'a'", "'a\\\"", "`'a'\\\"",
	"\"='a'\",", "\"--token \" ", "'{'a", "x=\"{\"a+\"",
}

// hostileTokens open or close something.
var hostileTokens = []string{
	"password=", "--token ", "a", ": ", "- ", "\n", " ", "(", "]", "{", "}", "<a ", ">", "'", "\"", "`", "\\", "# ", "/*", "//", ",",
}

func init() {
	for _, a := range hostileTokens {
		for _, b := range hostileTokens {
			hostileUnits = append(hostileUnits, a+b)
		}
	}
}

// hostile returns a text that repeats a unit, and whose first line must be hidden.
func hostile(unit string, size int) []byte {
	return []byte("password = \"hunter2-Xq81zz\" " + strings.Repeat(unit, size/len(unit)))
}

// viewOf returns the lines of a text as a model sees them.
func viewOf(t testing.TB, text []byte) []Line {
	t.Helper()
	lines, err := Lines(t.Context(), text)
	require.NoError(t, err)
	return lines
}

// readAll reads a text as a task reads a file.
func readAll(t testing.TB, text []byte) []Line {
	t.Helper()
	lines, raw := viewOf(t, text), Raw(text)
	for i, l := range lines {
		if l.Redacted() {
			for range Values(raw[i]) {
			}
		}
	}
	return lines
}

// TestPlaceholdersAreReadOnce: the work for a line with many placeholders grows with its length.
func TestPlaceholdersAreReadOnce(t *testing.T) {
	for _, unit := range []string{"'{'a", "x=\"{\"a+\"", "`{`a"} {
		work := func(size int) float64 {
			line := strings.Repeat(unit, size/len(unit))
			return testing.AllocsPerRun(1, func() { Text(line) })
		}
		require.Less(t, work(4096), 10*work(1024), unit)
	}
}

// FuzzView: a text keeps the number of its lines, and a password in its first line is hidden, whatever surrounds it.
func FuzzView(f *testing.F) {
	for _, unit := range hostileUnits {
		f.Add([]byte(strings.Repeat(unit, 20)))
	}
	f.Add([]byte("<env><value>abcd1234efgh</value><name>DB_PASSWORD\n\"DB_PASSWORD\"\n"))
	f.Add([]byte("<div><p>Login</p><label>Password <b>token</b></label></div>\n<env><value>a1</value><name>DB_PASSWORD\n<b>DB_PASSWORD\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = append([]byte("password = \"hunter2-Xq81zz\"\n"), text...)
		lines := readAll(t, text)
		require.Len(t, lines, len(Raw(text)))
		require.True(t, lines[0].Redacted())
	})
}

// BenchmarkView cleans hostile texts of two sizes. The time per byte should be about the same.
func BenchmarkView(b *testing.B) {
	for _, unit := range hostileUnits {
		for _, size := range []int{32 << 10, 512 << 10} {
			text := hostile(unit, size)
			b.Run(fmt.Sprintf("%q of %d KiB", unit, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					readAll(b, text)
				}
			})
		}
	}
}
