// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// idSamples has specimens of every format from its specification or public test data.
var idSamples = [idFormatCount]struct {
	name   string // key under which it is detected
	text   string // its form in text; "" for none
	plain  string // without separators
	wrong  string // as text or plain, with a wrong checksum
	nearby []string
}{
	brazilCPF:          {"cpf", "111.444.777-35", "11144477735", "111.444.777-36", []string{"111.444.777", "1111.444.777-35", "111.444.777-350", "10.111.444.777-35", "222.222.222-22"}},
	brazilCNPJ:         {"cnpj", "11.222.333/0001-81", "11222333000181", "11.222.333/0001-82", []string{"11.222.333/0001", "111.222.333/0001-81", "00.000.000/0000-00"}},
	spainDNI:           {"dni", "12345678-Z", "12345678Z", "12345678-A", []string{"2026-12345678-Z", "12345678-Z9", "12345678Z", "00000000-T"}},
	spainNIE:           {"nie", "X1234567L", "X1234567L", "X1234567M", []string{"AX1234567L", "X1234567L1", "x1234567l", "X-1234567-L", "W1234567L"}},
	italyCF:            {"codice_fiscale", "RSSMRA85T10A562S", "RSSMRA85T10A562S", "RSSMRA85T10A562T", []string{"ARSSMRA85T10A562S", "RSSMRA85T10A562SX", "RSSMRA85T32A562S"}},
	franceNIR:          {"nir", "2 55 08 14 168 025 38", "255081416802538", "2 55 08 14 168 025 39", []string{"2 55 08 14 168 025 387", "12 55 08 14 168 025 38", "2 55 13 14 168 025 38", "255081416802538"}},
	polandPESEL:        {"pesel", "", "44051401359", "44051401358", []string{"44051401359"}},
	swedenPersonnummer: {"personnummer", "", "8112189876", "8112189877", []string{"811218-9876", "19811218-9876"}},
	finlandHETU:        {"hetu", "131052-308T", "131052308T", "131052-308U", []string{"131052-308TX", "331052-308T", "131352-308T", "x131052-308T", "131052-3081"}},
	indiaAadhaar:       {"aadhaar", "", "234123412346", "234123412347", []string{"234123412346", "2341 2341 2346"}},
	netherlandsBSN:     {"bsn", "", "111222333", "111222334", []string{"111222333"}},
	portugalNIF:        {"nif", "", "123456789", "123456788", []string{"123456789"}},
	canadaSIN:          {"sin", "", "130692544", "130692545", []string{"130692544", "130-692-544", "130 692 544"}},
	australiaTFN:       {"tfn", "", "123456782", "123456783", []string{"123 456 782"}},
	australiaMedicare:  {"medicare_number", "", "2123456701", "2123456711", []string{"2123 45670 1"}},
	britainNINO:        {"nino", "", "AB123456C", "BG123456C", []string{"AB123456C"}},
	mexicoCURP:         {"curp", "BOXW310820HNERXN09", "BOXW310820HNERXN09", "BOXW310820HNERXN08", []string{"BOXW310820HNERXN091", "BOXW311320HNERXN09", "boxw310820hnerxn09"}},
	chileRUT:           {"rut", "76.086.428-5", "760864285", "76.086.428-6", []string{"76.086.428", "1.76.086.428-5", "76.086.428-55", "11.111.111-1"}},
	turkeyTCKN:         {"tckn", "", "10000000146", "10000000147", []string{"10000000146"}},
	germanyIDNr:        {"steuer_id", "", "86095742719", "86095742718", []string{"86095742719", "86 095 742 719"}},
	koreaRRN:           {"rrn", "900101-1234568", "9001011234568", "900101-1234567", []string{"901301-1234568", "900101-12345688", "900101-0234568", "9001011234568"}},
	chinaID:            {"id_card", "11010519491231002X", "11010519491231002X", "11010519491231003X", []string{"11010519491331002X", "11010518491231002X", "110105194912310029", "11010519491231002x"}},
	argentinaCUIT:      {"cuit", "20-05536168-2", "20055361682", "20-05536168-3", []string{"20-05536168", "120-05536168-2", "20-05536168-22", "21-05536168-2"}},
	belgiumNN:          {"insz", "85.07.30-033.28", "85073003328", "85.07.30-033.29", []string{"85.07.30-033", "85.07.30-033.281", "1.85.07.30-033.28", "85.13.30-033.28"}},
	switzerlandAHV:     {"ahv", "756.9217.0769.85", "7569217076985", "756.9217.0769.86", []string{"756.9217.0769", "756.9217.0769.85.1", "1.756.9217.0769.85", "755.9217.0769.85"}},
}

func TestNationalIDs(t *testing.T) {
	for format, s := range idSamples {
		f := &idFormats[format]
		require.Equal(t, f.text == "", s.text == "", s.name)
		if s.text != "" {
			for _, text := range []string{s.text, "customer " + s.text + " updated", `{"id":"` + s.text + `"}`, "id=" + s.text + ";x", "(" + s.text + ")", s.text + "."} {
				require.Equal(t, f.kind, Text([]byte(text)), text)
			}
			require.Equal(t, "customer [redacted] updated", Clean([]byte("customer "+s.text+" updated")))
			require.Equal(t, None, Text([]byte("customer "+s.wrong+" updated")), s.wrong)
			require.Equal(t, None, Text([]byte("order-"+s.text)), s.text)
			require.Equal(t, None, Text([]byte(s.text+"-1")), s.text)
			require.Equal(t, None, Text([]byte("a_"+s.text)), s.text)
		}
		for _, text := range s.nearby {
			require.Equal(t, None, Text([]byte("customer "+text+" updated")), text)
			require.Equal(t, None, Named([]byte("acme.note"), []byte(text)), text)
		}
		key := "customer." + s.name
		require.Equal(t, f.kind, Named([]byte(key), []byte(s.plain)), key)
		require.Equal(t, f.kind, Named([]byte(strings.ToUpper(s.name)), []byte(" "+strings.ToLower(s.plain)+" ")), key)
		require.Equal(t, Redacted, CleanNamed([]byte(key), []byte(s.plain)), key)
		for _, no := range []string{s.wrong, strings.Trim(s.wrong, "-./ ") + "1", "", "***", "unknown", "12", "the " + strings.ToLower(s.plain), strings.Repeat("1", 40)} {
			require.Equal(t, None, Named([]byte(key), []byte(no)), "%s: %s", key, no)
		}
		for _, text := range []string{s.name + "=" + s.plain, s.name + ": " + s.plain + ", x", `{"` + s.name + `":"` + s.plain + `"}`, "?" + s.name + "=" + s.plain + "&a=b"} {
			require.Equal(t, f.kind, Text([]byte(text)), text)
			require.NotContains(t, Clean([]byte(text)), s.plain, text)
		}
		require.Equal(t, None, Text([]byte("x"+s.name+"="+s.plain+"1")), s.name)
		wrong := strings.NewReplacer(" ", "", "-", "", ".", "", "/", "").Replace(s.wrong)
		require.Equal(t, None, Text([]byte(s.name+"="+wrong)), wrong)
	}
	for _, c := range []struct {
		key   string
		value int64
		want  Kind
	}{
		{"bsn", 111222333, NationalID},
		{"bsn", 111222334, None},
		{"bsn", -111222333, None},
		{"tfn", 123456782, TaxID},
		{"sin", 1, None},
		{"pesel", 44051401359, NationalID},
		{"", 44051401359, None},
		{"national_id", 10000000146, NationalID},
		{"tax_id", 86095742719, TaxID},
		{"tax_id", 12, None},
	} {
		require.Equal(t, c.want, Integer([]byte(c.key), c.value), "%s: %d", c.key, c.value)
	}
	for text, want := range map[string]Kind{
		"personnummer: 811218-9876":     NationalID,
		"personnummer=19811218-9876":    NationalID,
		"aadhaar: 2341 2341 2346 found": NationalID,
		"aadhaar 2341 2341 2346":        None,
		"nino: AB 12 34 56 C":           NationalID,
		"tax_file_number=123 456 782":   TaxID,
		"hetu=010101A123N":              NationalID,
		"hetu=010101A123M":              None,
		"hetu=010101G123N":              None,
		"hetu=131052-308T":              NationalID,
		"nir: 1 85 05 2A 004 123 59":    None,
		"medicare: 2123 45670 1":        NationalID,
		"basin=130692544":               None,
		"sin=0.130692544":               None,
		"sin(x)=130692544":              None,
		`{"cpf":11144477735}`:           TaxID,
		`{"cpf":11144477736}`:           None,
		"tax_id=301-22-4455":            SSN,
	} {
		require.Equal(t, want, Text([]byte(text)), text)
	}
}

// TestCorsicanNIR checks the letters in the department of birth.
func TestCorsicanNIR(t *testing.T) {
	for dept, subtract := range map[string]int64{"2A": 1_000_000, "2B": 2_000_000} {
		body := "18505" + dept + "004123"
		n := decimal([]byte("18505" + "20" + "004123"))
		key := 97 - (n-subtract)%97
		v := []byte(body + string([]byte{byte('0' + key/10), byte('0' + key%10)}))
		require.True(t, validNIR(v), string(v))
		v[14]++
		require.False(t, validNIR(v), string(v))
	}
}
