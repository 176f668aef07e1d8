package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
)

func amongPeers(e *example) {
	peers := newCommand(e)
	meeting, orders := e.sample("default"), e.sample("orders")
	meeting.create()
	orders.create()

	cluster, laptop, metrics := e, e.another(), freeAddress(e)
	cluster.environment, laptop.environment = []string{"POD_ID=cluster"}, []string{"POD_ID=laptop"}
	cluster.start("-metrics-bind-address=" + metrics)
	cluster.logs(`Watching`)

	laptop.start("-dev")
	cluster.logs(`Paused`, `laptop`)
	cluster.logs(`Watching no more`)
	laptop.logs(`Watching`)
	orders.patch(`{"spec":{"sizeGiB":20}}`)
	laptop.logs(`Resizing`, `"to": 20`)
	cluster.silent(`Resizing`)
	e.Expect(fetch(metrics + "/kopf/peering")).To(Equal(saysOfItself(e) + "\n"))
	peers.shows("list")

	laptop.stop()
	cluster.logs(`Resumed`)
	e.Eventually(cluster.count("\tWatching\t")).Should(Equal(2))

	laptop.start("-dev")
	e.Eventually(cluster.count(`Paused`, `laptop`)).Should(Equal(2))
	laptop.kill()
	e.Eventually(cluster.count(`Resumed`)).Should(Equal(2))
	cluster.logs(`Removed the records of dead peers`)

	peers.shows("freeze", "--id=ann", "--lifetime=10m", "--message=moving the databases")
	cluster.logs(`Paused`, `ann`)
	orders.patch(`{"spec":{"sizeGiB":30}}`)
	e.Consistently(func() bool { return cluster.hasLogged(`Resizing`) }).WithTimeout(time.Second).Should(BeFalse())
	peers.shows("resume", "--id=ann")
	cluster.logs(`Resizing`, `"from": 20, "to": 30`)
	cluster.silent(`Reconnecting`)

	orders.delete()
	meeting.delete()
	e.earlier = append(e.earlier, laptop.lines()...) // the README shows both
}

// saysOfItself is what the README shows of the operator in the cluster, when it is asked.
func saysOfItself(e *example) string {
	return regexp.MustCompile(`(?m)^paused: .*$`).FindString(read(e.t, e.name, "README.md"))
}

// A command is "kopf peers", as people have it.
type command struct {
	*example
	kopf string
}

func newCommand(e *example) command {
	c := command{e, filepath.Join(e.t.TempDir(), "kopf")}
	e.Expect(program.Build(e.t.Context(), "../cmd/kopf", c.kopf)).To(Succeed())
	return c
}

// shows runs the command until it prints what the README does after it.
func (c command) shows(args ...string) {
	c.t.Helper()
	want := c.inReadme(args[0])
	c.Eventually(func() ([]string, error) {
		cmd := exec.CommandContext(c.t.Context(), c.kopf, append([]string{"peers"}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
		out, err := cmd.CombinedOutput()
		return words(string(out)), err
	}).Should(Equal(want))
}

// inReadme finds the output of a command there, in the next block after the one that has it.
func (c command) inReadme(command string) []string {
	c.t.Helper()
	output := regexp.MustCompile("(?s)peers " + command + " ?[^`]*```\\s+```\n(PEERING.*?)```").FindStringSubmatch(read(c.t, c.name, "README.md"))
	c.Expect(output).NotTo(BeNil(), "the README does not show what %q prints", command)
	return words(output[1])
}

// words are those of a table, but for the times.
func words(table string) (all []string) {
	for word := range strings.FieldsSeq(table) {
		all = append(all, regexp.MustCompile(`^\d{4}-\d\d-\d\dT.*Z$`).ReplaceAllString(word, "..."))
	}
	return slices.Clip(all)
}
