package examples

import (
	"os/exec"
	"regexp"

	. "github.com/onsi/gomega"
)

// The walkthrough replaces version 1 by version 2, whose rollout halts.
func upgrade(e *example) {
	e.buildCLI()
	metrics := freeAddress(e)
	e.start("-version=1", "-metrics-bind-address="+metrics)
	e.run("kubectl apply -f config/samples")
	e.Eventually(e.countLog("Handled", `"reason": "create"`)).Should(Equal(5))
	e.Expect(preview(e)).To(Equal(e.outputInReadme("go run . -preview")))
	e.stop()

	e.start("-metrics-bind-address=" + metrics)
	e.waitForLog("The rollout is halted")
	const state = `kubectl get configmap kopf-rollout -o jsonpath='{.data.databases\.demo\.example\.com}'`
	e.Eventually(func() string { return withoutTimes(e.run(state)) + "\n" }).Should(Equal(e.outputInReadme(state)))
	const why = "kopf why databases orders --operator http://localhost:8080"
	e.Expect(withoutTimes(e.run(why, "--operator", "http://"+metrics))).To(Equal(e.outputInReadme(why)))
	e.run(`kubectl patch configmap ciphers --type=merge -p '{"data":{"mysql":"aes-256"}}'`)
	e.run("kubectl annotate databases stock users kopf.zalando.org/retry.configure=now")
	e.Eventually(e.countLog("Encrypting", `"reason": "update"`)).Should(Equal(2))
	e.expectNoLog("Encrypting", `"reason": "revision"`)

	e.Expect(e.run("kopf rollout resume databases -n default --wait")).To(ContainSubstring("configure 2"))
	e.waitForLog("The rollout is complete")
	e.runUntilShown("kubectl get databases -o custom-columns=NAME:.metadata.name,ENGINE:.spec.engine,CIPHER:.status.configure.cipher")
	e.run("kubectl annotate database archive kopf-runtime.dev/rollout-")
	e.waitForLog("Encrypting", `"reason": "revision"`, `"name": "archive"`)
	e.expectNoLog("forbidden")
}

// preview returns what version 2 would do.
func preview(e *example) (string, error) {
	command := exec.CommandContext(e.t.Context(), e.file, "-preview", "-metrics-bind-address=0")
	command.Env = append(command.Environ(), "KUBECONFIG="+e.kubeconfig)
	out, err := command.Output()
	return string(out), err
}

var someTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

func withoutTimes(text string) string { return someTime.ReplaceAllString(text, "...") }
