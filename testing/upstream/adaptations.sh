# shellcheck shell=bash
# Sourced by run.sh: where the program stands in for OCM's agent, and what the tests expect of it.
tests=test/integration/$suite
add program.go test/program/program.go
add "$suite.go" "pkg/$suite/spoke/program.go"

case $suite in
registration)
    adapt pkg/registration/spoke/spokeagent.go '\nfunc \(o \*SpokeAgentConfig\) \KRunSpokeAgent\(' 'runInProcess('
    add registration_test.go $tests/adapted_test.go

    # Parts at the same time must not share a directory.
    adapt test/integration/util/authentication.go '\tTestDir +=[^\n]*\n\)' \
        ')

var TestDir = path.Join(os.TempDir(), "suite")'
    # We read no files of other directories.
    adapt test/integration/util/authentication.go 'config\.CurrentContext = context\n\n\treturn \K(?=config, nil)' \
        'config, clientcmdapi.FlattenConfig(config) //'
    # OCM's hub: an add-on manager that is stopped while it reads a ServiceAccount would end the tests by a panic.
    adapt pkg/addon/controllers/addontokeninfra/controller.go \
        'sa, ok := result\.Result\.\(\*corev1\.ServiceAccount\); ok\K' ' && sa != nil'

    # OCM shortens a constant of its process, the lease duration of add-ons; a program's is 5 * 60 s.
    adapt $tests/addon_lease_test.go '2\*eventuallyTimeout' '11*eventuallyTimeout'
    # The namespace appears when the certificate in wait expires, which we never store: a third of the time suffices.
    adapt $tests/addon_registration_test.go 'gomega\.Consistently.*?\}, \KeventuallyTimeout' 'eventuallyTimeout/3'
    # Where OCM stores an expired certificate, we refuse it with an Event.
    adapt $tests/spokeagent_recovery_test.go 'first\w+, err = \Kutil\.GetFilledHubKubeConfigSecret' 'filledOrRejected'
    # A hub that was only renamed knows the agent: the kubeconfig is repaired, and no certificate is requested.
    adapt $tests/spokeagent_restart_test.go \
        '\t\t// agent should bootstrap again due.*?(?=\t\tgomega\.Eventually\(func\(\) bool \{\n\t\t\tsecondHub)' \
        $'\t\t_ = firstCSRName\n\n'
    ;;
work)
    adapt pkg/work/spoke/spokeagent.go '\nfunc \(o \*WorkAgentConfig\) \KRunWorkloadAgent\(' 'runInProcess('
    add work_test.go $tests/adapted_test.go
    # Written for Kubernetes 1.30, which accepted less of a complete Job.
    adapt $tests/conditionrules_test.go 'Jobs\(\w+\)\.UpdateStatus\(context\.Background\(\), \Kjob' 'whole(job)' 9
    ;;
esac
