package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestWriteTexts(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "texts")
	g.Expect(writeTexts(file, "../../cmd/kopf")).To(Succeed())
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	for _, part := range []string{
		"=== k8s.io/client-go: LICENSE\n\n",
		"=== k8s.io/utils/third_party/forked/golang: LICENSE\n\n", // copied code
		"=== github.com/prometheus/client_golang: NOTICE\n\n",
		"=== github.com/inconshreveable/mousetrap: LICENSE\n\n", // only on Windows
	} {
		g.Expect(string(text)).To(ContainSubstring(part))
	}
	g.Expect(string(text)).NotTo(ContainSubstring("ginkgo"), "only tests import it")
}
