package webhooks

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

const (
	// filePollInterval is how often controller-runtime reads certificate files.
	filePollInterval = 10 * time.Second
	// caRetention is how long a CA stays trusted after it is removed from the file. Mounted files can change minutes apart in different
	// replicas.
	caRetention = 5 * time.Minute
)

// caFile is the caProvider of [Files]. It provides the CAs in the file and those that were removed recently.
type caFile struct {
	path     string
	now      func() time.Time
	observed []observedCA
}

// observedCA is a CA and when the file last contained it.
type observedCA struct {
	ca       *x509.Certificate
	lastSeen time.Time
}

// caBundle returns the content of the file, followed by the recently removed CAs.
func (f *caFile) caBundle() ([]byte, error) {
	if f.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("reading Files.CAFile: %w", err)
	}
	current, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("parsing Files.CAFile %s: %w", f.path, err)
	}
	now := f.now()
	f.observed = slices.DeleteFunc(f.observed, func(s observedCA) bool {
		return now.Sub(s.lastSeen) > caRetention || now.After(s.ca.NotAfter) || slices.ContainsFunc(current, s.ca.Equal)
	})
	removed := make([]*x509.Certificate, len(f.observed))
	for i, s := range f.observed {
		removed[i] = s.ca
	}
	for _, ca := range current {
		f.observed = append(f.observed, observedCA{ca, now})
	}
	old, err := encodeCAs(removed)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(append(append(bytes.TrimSpace(text), '\n'), old...)), nil
}

// rotate returns the delay until the file must be read again, or zero without a file.
func (f *caFile) rotate(context.Context, []byte) (time.Duration, error) {
	if f.path == "" {
		return 0, nil
	}
	return filePollInterval, nil
}
