import dramatiq
import schedule


@dramatiq.actor(queue_name="mail")
def send_mail(to, *, copy=None):
    print("mail", to, copy)


@dramatiq.actor
def fail():
    raise RuntimeError("no server")


def clean():
    print("clean")


schedule.every(10).minutes.do(clean)


def main():
    send_mail.run("a", copy="b")
    try:
        fail.run()
    except RuntimeError as error:
        print("failed", error)
    schedule.run_all()
