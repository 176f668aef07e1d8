package webhooks

import (
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
)

// What a Secret has, besides tls.crt and tls.key.
const (
	bundleKey   = "ca.crt"
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
	// sinceAnnotation tells when the next CA was found in the configurations.
	sinceAnnotation = "kopf.dev/next-trusted-since"
)

// readSecret makes the best of what is there: what is broken is absent. The error tells of it.
func readSecret(secret *corev1.Secret) (k keychain, err error) {
	data := secret.Data
	k.version = secret.ResourceVersion
	k.serving, err = parsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if len(data[nextCertKey]) > 0 {
		var nextErr error
		if k.next, nextErr = parsePair(data[nextCertKey], data[nextKeyKey]); nextErr != nil && err == nil {
			err = nextErr
		}
	}
	if len(data[bundleKey]) > 0 {
		var bundleErr error
		if k.trusted, bundleErr = certutil.ParseCertsPEM(data[bundleKey]); bundleErr != nil && err == nil {
			err = bundleErr
		}
	}
	if text := secret.Annotations[sinceAnnotation]; text != "" && k.next != nil {
		k.since, _ = time.Parse(time.RFC3339Nano, text) // unreadable: it was not seen yet
	}
	return k, err
}

// writeSecret leaves alone what is not ours in the Secret.
func writeSecret(secret *corev1.Secret, k keychain) error {
	bundle, err := encode(k.trusted)
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = k.serving.cert, k.serving.key
	secret.Data[bundleKey] = bundle
	delete(secret.Data, nextCertKey)
	delete(secret.Data, nextKeyKey)
	delete(secret.Annotations, sinceAnnotation)
	if k.next != nil {
		secret.Data[nextCertKey], secret.Data[nextKeyKey] = k.next.cert, k.next.key
	}
	if !k.since.IsZero() {
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[sinceAnnotation] = k.since.UTC().Format(time.RFC3339Nano)
	}
	return nil
}

func encode(cas []*x509.Certificate) ([]byte, error) {
	if len(cas) == 0 {
		return nil, nil
	}
	return certutil.EncodeCertificates(cas...)
}
