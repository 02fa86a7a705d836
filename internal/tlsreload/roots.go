// SPDX-License-Identifier: Apache-2.0

package tlsreload

import (
	"crypto/x509"
	"fmt"
	"os"
)

// ReadRoots reads CA certificates in PEM. It returns nil, for the CAs of the system, if file is "".
func ReadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}
