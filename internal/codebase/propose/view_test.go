// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCleanText: the lines of a private key in a test's output are not sent to the model.
func TestCleanText(t *testing.T) {
	const output = "--- FAIL: TestKey\r\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1c7\n-----END RSA PRIVATE KEY-----\n"
	require.Equal(t, "--- FAIL: TestKey\n[redacted]\n[redacted]\n[redacted]\n"+strings.Repeat("a ", maxLine), cleanText(output+strings.Repeat("a ", maxLine)))
}

// TestView: the value of a secret is hidden on another line than its name as well.
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
		"@Value(\"${db.password:hunter2-Xq81zz}\")\n@Value(\"${db.user:shop}\")\n",
		"password: ${DB_PASSWORD:-hunter2-Xq81zz}\n",
		// Several lines.
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
		for _, l := range view([]byte(text)) {
			shown.WriteString(l.text + "\n")
		}
		require.NotContains(t, shown.String(), value, text)
		require.Equal(t, strings.Count(text, "shop"), strings.Count(shown.String(), "shop"), "%s\n%s", text, shown.String())
		require.NotContains(t, cleanText(text), value)
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
		require.Equal(t, text, cleanText(text))
	}
	require.Contains(t, cleanText("const marker = \"-----BEGIN PRIVATE KEY-----\"\nfunc f() {\n\treturn\n}\n"), "\nfunc f() {\n\treturn\n}\n")
}
