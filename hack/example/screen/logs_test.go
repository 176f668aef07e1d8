package screen_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
)

func TestShorten(t *testing.T) {
	g := NewWithT(t)
	for line, short := range map[string]string{
		"2026-01-02T15:04:05.678Z\tINFO\tDone\t{\"controller\": \"database\", \"name\": \"x\", \"n\": 1, \"s\": \"a b\", \"o\": {\"k\": [1]}}": `15:04:05.678  INFO  Done  n=1 s="a b" o={"k":[1]}`,
		"2026-01-02T15:04:05.678+0100\tERROR\tsetup\tBroken": "15:04:05.678  ERROR  setup  Broken",
		"panic: no more": "panic: no more",
		"main.run":       "main.run",
		"\t/main.go:12":  "\t/main.go:12",
	} {
		g.Expect(screen.Shortened([]string{line}, "controller", "name")).To(Equal([]string{short}))
	}
}
