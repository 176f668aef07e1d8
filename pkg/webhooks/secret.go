package webhooks

import (
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
)

// Keys in the Secret besides tls.crt and tls.key.
const (
	bundleKey   = "ca.crt"
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
	// trustedSinceAnnotation contains when the configurations were first found to contain the CA of the next certificate.
	trustedSinceAnnotation = "kopf.dev/next-trusted-since"
)

// parseSecret returns the valid parts of a Secret, and an error if other parts are invalid.
func parseSecret(secret *corev1.Secret) (b certBundle, err error) {
	data := secret.Data
	b.version = secret.ResourceVersion
	b.serving, err = parseKeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if len(data[nextCertKey]) > 0 {
		var nextErr error
		if b.next, nextErr = parseKeyPair(data[nextCertKey], data[nextKeyKey]); nextErr != nil && err == nil {
			err = nextErr
		}
	}
	if len(data[bundleKey]) > 0 {
		var bundleErr error
		if b.trusted, bundleErr = certutil.ParseCertsPEM(data[bundleKey]); bundleErr != nil && err == nil {
			err = bundleErr
		}
	}
	if text := secret.Annotations[trustedSinceAnnotation]; text != "" && b.next != nil {
		b.trustedSince, _ = time.Parse(time.RFC3339Nano, text) // treat an invalid time as not yet trusted
	}
	return b, err
}

// fillSecret writes a bundle into a Secret and keeps all other data.
func fillSecret(secret *corev1.Secret, b certBundle) error {
	bundle, err := encodeCAs(b.trusted)
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = b.serving.cert, b.serving.key
	secret.Data[bundleKey] = bundle
	delete(secret.Data, nextCertKey)
	delete(secret.Data, nextKeyKey)
	delete(secret.Annotations, trustedSinceAnnotation)
	if b.next != nil {
		secret.Data[nextCertKey], secret.Data[nextKeyKey] = b.next.cert, b.next.key
	}
	if !b.trustedSince.IsZero() {
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[trustedSinceAnnotation] = b.trustedSince.UTC().Format(time.RFC3339Nano)
	}
	return nil
}

func encodeCAs(cas []*x509.Certificate) ([]byte, error) {
	if len(cas) == 0 {
		return nil, nil
	}
	return certutil.EncodeCertificates(cas...)
}
