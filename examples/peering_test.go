package examples

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
)

func peers(e *example) {
	e.buildCLI()
	e.run("kubectl apply -f config/samples")

	cluster, laptop, metrics := e, e.secondProcess(), freeAddress(e)
	cluster.environment, laptop.environment = []string{"POD_ID=cluster"}, []string{"POD_ID=laptop"}
	cluster.start("-metrics-bind-address=" + metrics)
	cluster.waitForLog(`Watching`)

	laptop.start("-dev")
	cluster.waitForLog(`Paused`, `laptop`)
	cluster.waitForLog(`Stopped watching`)
	laptop.waitForLog(`Watching`)
	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	laptop.waitForLog(`Resizing`, `"to": 20`)
	cluster.expectNoLog(`Resizing`)
	e.Expect(fetch(metrics + "/kopf/peering")).To(Equal(pauseInReadme(e) + "\n"))
	e.Eventually(func() string {
		return e.run("kubectl get events --field-selector involvedObject.kind=ClusterKopfPeering")
	}).
		Should(ContainSubstring("Paused"), "Events are posted in the background")
	e.runUntilShown("kopf peers list")

	laptop.stop()
	cluster.waitForLog(`Resumed`)
	e.Eventually(cluster.countLog("\tWatching\t")).Should(Equal(2))

	laptop.start("-dev")
	e.Eventually(cluster.countLog(`Paused`, `laptop`)).Should(Equal(2))
	laptop.kill()
	e.Eventually(cluster.countLog(`Resumed`)).Should(Equal(2))
	cluster.waitForLog(`Removed the records of dead peers`)

	e.runUntilShown(`kopf peers freeze --id=ann --lifetime=10m --message="moving the databases"`)
	cluster.waitForLog(`Paused`, `ann`)
	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":30}}'`)
	e.Consistently(func() bool { return cluster.hasLogged(`Resizing`) }).WithTimeout(time.Second).Should(BeFalse())
	e.runUntilShown("kopf peers resume --id=ann")
	cluster.waitForLog(`Resizing`, `"from": 20, "to": 30`)
	cluster.expectNoLog(`Reconnecting`)

	e.run("kubectl delete -f config/samples")
	e.earlier = append(e.earlier, laptop.lines()...) // the README shows the logs of both operators
}

// pauseInReadme returns the line of the README about the pause of the operator in the cluster.
func pauseInReadme(e *example) string {
	return regexp.MustCompile(`(?m)^paused: .*$`).FindString(read(e.t, e.name, "README.md"))
}

// buildCLI adds the command kopf to the terminal, as the README describes.
func (e *example) buildCLI() {
	folder := e.t.TempDir()
	e.Expect(program.Build(e.t.Context(), "../cmd/kopf", filepath.Join(folder, "kopf"))).To(Succeed())
	e.terminal.Programs = append(e.terminal.Programs, folder)
}

// runUntilShown runs a command until it prints the output in the README.
func (e *example) runUntilShown(command string) {
	e.t.Helper()
	e.Eventually(func() []string { return words(e.run(command)) }).Should(Equal(words(e.outputInReadme(command))), command)
}

// words returns the words of a table, with "..." for times.
func words(table string) (all []string) {
	for word := range strings.FieldsSeq(table) {
		all = append(all, regexp.MustCompile(`^\d{4}-\d\d-\d\dT.*Z$`).ReplaceAllString(word, "..."))
	}
	return slices.Clip(all)
}
