package examples

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
)

func amongPeers(e *example) {
	e.buildTool()
	e.does("kubectl apply -f config/samples")

	cluster, laptop, metrics := e, e.another(), freeAddress(e)
	cluster.environment, laptop.environment = []string{"POD_ID=cluster"}, []string{"POD_ID=laptop"}
	cluster.start("-metrics-bind-address=" + metrics)
	cluster.logs(`Watching`)

	laptop.start("-dev")
	cluster.logs(`Paused`, `laptop`)
	cluster.logs(`Stopped watching`)
	laptop.logs(`Watching`)
	e.does(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	laptop.logs(`Resizing`, `"to": 20`)
	cluster.silent(`Resizing`)
	e.Expect(fetch(metrics + "/kopf/peering")).To(Equal(saysOfItself(e) + "\n"))
	e.Expect(e.does("kubectl get events --field-selector involvedObject.kind=ClusterKopfPeering")).To(ContainSubstring("Paused"))
	e.shows("kopf peers list")

	laptop.stop()
	cluster.logs(`Resumed`)
	e.Eventually(cluster.count("\tWatching\t")).Should(Equal(2))

	laptop.start("-dev")
	e.Eventually(cluster.count(`Paused`, `laptop`)).Should(Equal(2))
	laptop.kill()
	e.Eventually(cluster.count(`Resumed`)).Should(Equal(2))
	cluster.logs(`Removed the records of dead peers`)

	e.shows(`kopf peers freeze --id=ann --lifetime=10m --message="moving the databases"`)
	cluster.logs(`Paused`, `ann`)
	e.does(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":30}}'`)
	e.Consistently(func() bool { return cluster.hasLogged(`Resizing`) }).WithTimeout(time.Second).Should(BeFalse())
	e.shows("kopf peers resume --id=ann")
	cluster.logs(`Resizing`, `"from": 20, "to": 30`)
	cluster.silent(`Reconnecting`)

	e.does("kubectl delete -f config/samples")
	e.earlier = append(e.earlier, laptop.lines()...) // the README shows both
}

// saysOfItself is what the README shows of the operator in the cluster, when it is asked.
func saysOfItself(e *example) string {
	return regexp.MustCompile(`(?m)^paused: .*$`).FindString(read(e.t, e.name, "README.md"))
}

// buildTool has "kopf" in the terminal, as the README says.
func (e *example) buildTool() {
	folder := e.t.TempDir()
	e.Expect(program.Build(e.t.Context(), "../cmd/kopf", filepath.Join(folder, "kopf"))).To(Succeed())
	e.terminal.Programs = append(e.terminal.Programs, folder)
}

// shows types a command until it prints what the README shows.
func (e *example) shows(command string) {
	e.t.Helper()
	e.Eventually(func() []string { return words(e.does(command)) }).Should(Equal(words(e.shown(command))), command)
}

// words are those of a table, but for the times.
func words(table string) (all []string) {
	for word := range strings.FieldsSeq(table) {
		all = append(all, regexp.MustCompile(`^\d{4}-\d\d-\d\dT.*Z$`).ReplaceAllString(word, "..."))
	}
	return slices.Clip(all)
}
