package driver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Security is what the brokers want of a client.
type Security struct {
	// TLS is nil where connections are in plain text.
	TLS *tls.Config
	// Login is nil where they don't ask who the client is.
	Login *Login
}

// Login is by SASL. Mechanism is spelled as the protocol does.
type Login struct {
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
}

// ReadSecurity reads the file that KAVKA_COMPAT_SECURITY names; without that, brokers want nothing.
func ReadSecurity() Security {
	path := os.Getenv("KAVKA_COMPAT_SECURITY")
	if path == "" {
		return Security{}
	}
	security, err := readSecurity(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return security
}

// securityFile has "" for each null.
type securityFile struct {
	Login
	Protocol      string `json:"protocol"`
	CA            string `json:"ca"`
	Certificate   string `json:"certificate"`
	Key           string `json:"key"`
	CheckHostname bool   `json:"check_hostname"`
}

func readSecurity(path string) (Security, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Security{}, err
	}
	var file securityFile
	if err := json.Unmarshal(data, &file); err != nil {
		return Security{}, err
	}
	var security Security
	if strings.HasPrefix(file.Protocol, "SASL_") {
		security.Login = &file.Login
	}
	if strings.HasSuffix(file.Protocol, "SSL") {
		security.TLS, err = file.config()
	}
	return security, err
}

func (f securityFile) config() (*tls.Config, error) {
	config := &tls.Config{}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificates in %s", f.CA)
		}
	}
	if f.Certificate != "" {
		own, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	if !f.CheckHostname {
		// This turns all checks off, so that the one of the authorities must be made here.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verifyChain(state.PeerCertificates, config.RootCAs)
		}
	}
	return config, nil
}

// verifyChain takes a certificate of any name, with those above it. The operating system's
// authorities are trusted where roots are nil.
func verifyChain(certificates []*x509.Certificate, roots *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, one := range certificates[1:] {
		between.AddCert(one)
	}
	_, err := certificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}
