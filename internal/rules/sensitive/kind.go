// SPDX-License-Identifier: Apache-2.0

package sensitive

// Kind is the kind of a finding. The zero value is None.
type Kind uint8

// The kinds of sensitive data.
const (
	None             Kind = iota
	Email                 // an e-mail address
	PaymentCard           // a payment card number
	SSN                   // a US social security number
	IBAN                  // an international bank account number
	NationalID            // a national identification number with a checksum
	TaxID                 // a tax number with a checksum
	BearerToken           // "Bearer" and a token
	BasicCredentials      // "Basic" and encoded user name and password
	JWT                   // a JSON web token
	AWSKey                // an AWS access key id
	SecretKey             // an API key that starts with sk-
	GitHubToken           // a GitHub token
	GitLabToken           // a GitLab token
	SlackToken            // a Slack token
	StripeKey             // a Stripe secret or webhook key
	GoogleKey             // a Google API key, OAuth token or client secret
	PrivateKey            // a PEM private key
	URLPassword           // user:password@ in a URL
	NamedSecret           // a value under a name such as password or patient_id
)

var kindNames = [...]string{
	None:             "none",
	Email:            "email",
	PaymentCard:      "payment_card",
	SSN:              "ssn",
	IBAN:             "iban",
	NationalID:       "national_id",
	TaxID:            "tax_id",
	BearerToken:      "bearer_token",
	BasicCredentials: "basic_credentials",
	JWT:              "jwt",
	AWSKey:           "aws_key",
	SecretKey:        "secret_key",
	GitHubToken:      "github_token",
	GitLabToken:      "gitlab_token",
	SlackToken:       "slack_token",
	StripeKey:        "stripe_key",
	GoogleKey:        "google_key",
	PrivateKey:       "private_key",
	URLPassword:      "url_password",
	NamedSecret:      "named_secret",
}

// String returns the stable name of the kind in snake case, as in evidence.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}
