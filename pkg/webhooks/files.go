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
	// fileInterval is that of controller-runtime for the certificates.
	fileInterval = 10 * time.Second
	// overlap is for how long CAs are trusted that have gone from the file: mounted files change at other times in each replica,
	// some minutes apart, and so do the certificates that the replicas serve.
	overlap = 5 * time.Minute
)

// A caFile is the authority of [Files]: the CAs in the file, and those that have been there not long ago.
type caFile struct {
	path string
	now  func() time.Time
	seen []sighting
}

// A sighting is when a CA was last in the file.
type sighting struct {
	ca *x509.Certificate
	at time.Time
}

// bundle is what stands in the file, and then what stood there.
func (f *caFile) bundle() ([]byte, error) {
	if f.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("Files.CAFile cannot be read: %w", err)
	}
	there, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("Files.CAFile %s has no certificates: %w", f.path, err)
	}
	now := f.now()
	f.seen = slices.DeleteFunc(f.seen, func(s sighting) bool {
		return now.Sub(s.at) > overlap || now.After(s.ca.NotAfter) || slices.ContainsFunc(there, s.ca.Equal)
	})
	gone := make([]*x509.Certificate, len(f.seen))
	for i, s := range f.seen {
		gone[i] = s.ca
	}
	for _, ca := range there {
		f.seen = append(f.seen, sighting{ca, now})
	}
	old, err := encode(gone)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(append(append(bytes.TrimSpace(text), '\n'), old...)), nil
}

// step has nothing to do but to look again.
func (f *caFile) step(context.Context, []byte) (time.Duration, error) {
	if f.path == "" {
		return 0, nil
	}
	return fileInterval, nil
}
